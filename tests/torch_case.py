"""A small robust network on digits, and the same network in PyTorch."""

import keras
import numpy as np
import torch

from athe_tf import attacks, training


def robust_network(digits, convolutions, epochs):
    """Convolutions (the second with a stride of 2) and two dense layers, trained with TRADES for seconds."""
    keras.utils.set_random_seed(0)
    h = inputs = keras.Input((8, 8, 1))
    for index in range(convolutions):
        h = keras.layers.Conv2D(16 * 2**index, 3, strides=1 + index, activation="relu", name=f"conv{index}")(
            h
        )
    h = keras.layers.Dense(64, activation="relu", name="dense")(keras.layers.Flatten()(h))
    model = keras.Model(inputs, keras.layers.Dense(10, name="head")(h))
    trainer = training.TRADES(model, attacks.PGD(0.15, steps=5, step_size=0.05), beta=3.0)
    trainer.compile(optimizer=keras.optimizers.Adam(2e-3))
    trainer.fit(*digits.train.arrays(), batch_size=64, epochs=epochs, verbose=0)
    return model


class Twin(torch.nn.Module):
    """A `robust_network` in PyTorch, with its weights."""

    def __init__(self, model):
        super().__init__()
        self.convolutions = torch.nn.ModuleList()
        for layer in model.layers:
            if isinstance(layer, keras.layers.Conv2D):
                inputs, outputs = layer.kernel.shape[2:]
                self.convolutions.append(_filled(torch.nn.Conv2d(inputs, outputs, 3, layer.strides), layer))
        self.dense, self.head = (
            _filled(torch.nn.Linear(*layer.kernel.shape), layer)
            for layer in (model.get_layer("dense"), model.get_layer("head"))
        )

    def forward(self, x):
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))
        return self.head(torch.relu(self.dense(x.permute(0, 2, 3, 1).flatten(1))))


def _filled(module, layer):
    kernel, bias = layer.get_weights()
    layout = (3, 2, 0, 1) if kernel.ndim == 4 else (1, 0)
    module.weight.data = torch.tensor(kernel.transpose(layout).copy())
    module.bias.data = torch.tensor(bias)
    return module


def twin_and_tensors(model, images):
    """`(twin, x, y)` for a peer, after a check that both networks say the same."""
    torch.set_num_threads(1)  # two thread pools on few cores only wait for each other
    twin = Twin(model)
    x, y = torch.tensor(images[0].transpose(0, 3, 1, 2).copy()), torch.tensor(images[1]).long()
    with torch.no_grad():
        np.testing.assert_allclose(twin(x).numpy(), model(images[0]), atol=1e-4)
    return twin, x, y
