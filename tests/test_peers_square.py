"""Square and pyautoattack's on one network: ours must find at least what it finds."""

import keras
import numpy as np
import pytest

from athe_tf import attacks, data, training

torch = pytest.importorskip("torch")
IMAGES = 300
QUERIES = 300
# Robust accuracy between 20 and 80 %, where attacks differ.
EPSILON = {"linf": 0.17, "l2": 1.0, "l1": 3.0}
# Another seed moves the robust accuracy by about a point, so the means of some seeds are compared.
SEEDS = range(4)
TOLERANCE = 0.005


@pytest.fixture(scope="module")
def digits():
    return data.load("digits")


@pytest.fixture(scope="module")
def images(digits):
    x, y = digits.test.arrays()
    return x[:IMAGES], y[:IMAGES]


@pytest.fixture(scope="module")
def net(digits):
    """A small robust network, trained with TRADES for some seconds."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1))
    h = keras.layers.Conv2D(16, 3, activation="relu", name="conv")(inputs)
    h = keras.layers.Dense(64, activation="relu", name="dense")(keras.layers.Flatten()(h))
    model = keras.Model(inputs, keras.layers.Dense(10, name="head")(h))
    trainer = training.TRADES(model, attacks.PGD(0.15, steps=5, step_size=0.05), beta=3.0)
    trainer.compile(optimizer=keras.optimizers.Adam(2e-3))
    x, y = digits.train.arrays()
    trainer.fit(x, y, batch_size=64, epochs=6, verbose=0)
    return model


class Twin(torch.nn.Module):
    """The same network in PyTorch."""

    def __init__(self, model):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 16, 3)
        self.dense, self.head = torch.nn.Linear(576, 64), torch.nn.Linear(64, 10)
        for name in ("conv", "dense", "head"):
            kernel, bias = model.get_layer(name).get_weights()
            layout = (3, 2, 0, 1) if kernel.ndim == 4 else (1, 0)
            getattr(self, name).weight.data = torch.tensor(kernel.transpose(layout).copy())
            getattr(self, name).bias.data = torch.tensor(bias)

    def forward(self, x):
        h = torch.relu(self.conv(x)).permute(0, 2, 3, 1).flatten(1)
        return self.head(torch.relu(self.dense(h)))


def reference_accuracy(net, images, norm, seed):
    """Robust accuracy under pyautoattack's Square, as its AutoAttack runs it."""
    peer = pytest.importorskip("pyautoattack.square")
    torch.set_num_threads(1)  # two thread pools on few cores only wait for each other
    twin = Twin(net)
    x, y = torch.tensor(images[0].transpose(0, 3, 1, 2).copy()), torch.tensor(images[1]).long()
    with torch.no_grad():
        np.testing.assert_allclose(twin(x).numpy(), net(images[0]), atol=1e-4)
        x_adv = peer.SquareAttack(
            twin,
            norm=norm.capitalize(),
            n_queries=QUERIES,
            eps=EPSILON[norm],
            p_init=0.8,
            seed=seed,
            device="cpu",
            resc_schedule=False,
        ).perturb(x, y)
        return float((twin(x_adv).argmax(1) == y).float().mean())


def mean_accuracy(net, images, norm, **kwargs):
    attack = attacks.get(f"square-{QUERIES}", epsilon=EPSILON[norm], norm=norm, **kwargs)
    runs = [attack.run(net, *images, batch_size=IMAGES, seed=seed) for seed in SEEDS]
    return 1 - np.mean([run.success for run in runs])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_never_weaker_than_the_reference(net, images, norm):
    accuracy = mean_accuracy(net, images, norm)
    expected = np.mean([reference_accuracy(net, images, norm, seed) for seed in SEEDS])
    print(f"square {norm}: ours {accuracy:.4f}, pyautoattack {expected:.4f}")
    assert 0.1 < expected < 0.9
    assert accuracy <= expected + TOLERANCE


def test_with_shared_windows_it_is_the_reference(net, images):
    accuracy = mean_accuracy(net, images, "linf", shared_window=True)
    expected = np.mean([reference_accuracy(net, images, "linf", seed) for seed in SEEDS])
    print(f"square linf, shared windows: ours {accuracy:.4f}, pyautoattack {expected:.4f}")
    # Up to chance: the windows are the same in kind, not in fact.
    assert abs(accuracy - expected) <= 0.03
