"""The layers that the networks share, with PyTorch's padding and seeded initializers."""

import math

import keras

from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.utils.errors import check

# FreeAT's wide ResNet uses this slope; Keras' default is 0.2 and PyTorch's 0.01.
LEAKY_SLOPE = 0.1


class Blocks:
    """Applies layers to a tensor, one seed and one name for each.

    Args:
        seed: Every initializer is a function of this seed and the position of its layer.
        activation: One of `athe_tf.models.ACTIVATIONS`.
        dropout: Rate of the dropouts that a network has; 0 for none.

    Attributes:
        he_normal: Initialize convolutions by He's normal over the outgoing connections, as wide ResNets
            do, and not by PyTorch's default, uniform in +-1/sqrt(fan_in).
        bn_momentum: Momentum of batch normalization.
        pad_far_side: Pad convolutions with a stride of 2 by one pixel at the right and at the bottom, as
            TensorFlow's "same" does for even images, and not on all sides, as PyTorch does.
    """

    def __init__(self, seed: int, activation: str = "relu", dropout: float = 0.0):
        self.seed = seed
        self.activation = activation
        self.dropout_rate = dropout
        self.he_normal = False
        self.pad_far_side = False
        self.bn_momentum = 0.9
        self._layers = 0

    def conv(self, x, filters: int, kernel: int = 3, stride: int = 1, *, bias: bool = False, name: str):
        """A convolution, padded by `kernel // 2` on each side."""
        limit = 1 / math.sqrt(kernel * kernel * x.shape[-1])
        if stride > 1 and kernel > 1:
            # padding="same" with a stride pads only the far side of even images.
            padding = ((0, 1), (0, 1)) if self.pad_far_side else kernel // 2
            x = keras.layers.ZeroPadding2D(padding, name=f"{name}_pad")(x)
        weights = {"kernel_initializer": self._conv_initializer(limit), "use_bias": bias}
        if bias:
            weights["bias_initializer"] = self.uniform(limit)
        edges = "same" if stride == 1 else "valid"
        return keras.layers.Conv2D(filters, kernel, stride, edges, name=name, **weights)(x)

    def norm(self, x, *, name: str, gamma: str = "ones"):
        return BatchNorm(self.bn_momentum, gamma_initializer=gamma, name=name)(x)

    def act(self, x, *, name: str):
        if self.activation == "leaky_relu":
            return keras.layers.LeakyReLU(negative_slope=LEAKY_SLOPE, name=name)(x)
        return keras.layers.Activation(self.activation, name=name)(x)

    def norm_act(self, x, *, name: str):
        """Batch normalization, named `name`, and the activation."""
        return self.act(self.norm(x, name=name), name=f"{name}_act")

    def dense(self, x, units: int, *, name: str, dtype=None):
        """A dense layer with PyTorch's default: kernel and bias uniform in +-1/sqrt(fan_in)."""
        limit = 1 / math.sqrt(x.shape[-1])
        kernel, bias = self.uniform(limit), self.uniform(limit)
        return keras.layers.Dense(
            units, kernel_initializer=kernel, bias_initializer=bias, dtype=dtype, name=name
        )(x)

    def dropout(self, x, *, name: str):
        if not self.dropout_rate:
            return x
        return keras.layers.Dropout(self.dropout_rate, seed=self._next_seed(), name=name)(x)

    def uniform(self, limit: float):
        """An initializer, uniform in +-`limit`."""
        return keras.initializers.RandomUniform(-limit, limit, seed=self._next_seed())

    def normal(self, deviation: float):
        """An initializer, normal with this standard deviation."""
        return keras.initializers.RandomNormal(stddev=deviation, seed=self._next_seed())

    def _conv_initializer(self, limit: float):
        if not self.he_normal:
            return self.uniform(limit)
        return keras.initializers.VarianceScaling(
            2.0, "fan_out", "untruncated_normal", seed=self._next_seed()
        )

    def _next_seed(self) -> int:
        self._layers += 1
        # Two runs whose seeds differ by one must not share an initializer.
        return (self.seed * 10007 + self._layers) % 2**31


def channels(standard: int, width: int) -> int:
    """The channels of a network of `width` sixteenths whose standard form has `standard`."""
    return standard * width // 16


def check_size(model: str, x, smallest: int) -> None:
    """Raises `InputError` when the images are too small for all the poolings."""
    height, width = x.shape[1:3]
    check(
        min(height, width) >= smallest,
        f"{model} needs images of at least {smallest}x{smallest} pixels. Received: {height}x{width}. "
        "Use 'small_cnn' or 'wrn-10-1' for smaller ones.",
    )
