"""Batch normalization that equals PyTorch's, with modes for crafting adversarial examples in training.

`BatchNorm` behaves as Keras users expect: batch statistics and an update of the moving ones with
`training=True`, moving statistics with `training=False`. Crafting adversarial examples during training
needs other modes, which context managers around the call of the model select:

    with batch_statistics_without_update():
        net(x_adv, training=True)               # batch statistics; the moving ones do not change

    with capture_batch_statistics() as statistics:
        net(x, training=True)                   # a normal pass that also records its statistics
    with frozen_batch_statistics(statistics):
        net(x_adv, training=True)               # normalized by the statistics of x; nothing changes

The mode is read when the layer is called, which inside `tf.function` and `tf.while_loop` means: when it is
traced. Enter the context in the function that calls the model (with a strategy: in the replica's function),
not around the call of something already compiled. There are two exceptions: a layer with `trainable=False`
uses its moving statistics, as in Keras, and other batch normalization layers ignore the modes;
`third_party_batch_norms` finds those.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from athe_tf.utils import replicas
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import all_layers

HALF = (tf.bfloat16, tf.float16)

#: What one pass captured: from a layer to its batch mean and (biased) batch variance.
BatchStatistics = dict["BatchNorm", tuple[Any, Any]]


class _Mode(NamedTuple):
    update: bool = True
    capture_in: BatchStatistics | None = None
    frozen: BatchStatistics | None = None
    kept: Any = None


# Not a global: each replica of a MirroredStrategy is traced in a thread of its own, and a context variable
# set in one thread is not seen in another.
_NORMAL = _Mode()
_mode = contextvars.ContextVar("athe_tf_batch_norm_mode", default=_NORMAL)


@contextlib.contextmanager
def _entered(**changes) -> Iterator[None]:
    # What a mode replaces is all but the rule of the first update, inside which it is entered.
    token = _mode.set(_Mode(kept=_mode.get().kept)._replace(**changes))
    try:
        yield
    finally:
        _mode.reset(token)


def batch_statistics_without_update() -> contextlib.AbstractContextManager[None]:
    """Passes with `training=True` use the statistics of their batch and update nothing."""
    return _entered(update=False)


def copied_statistics(copy) -> contextlib.AbstractContextManager[None]:
    """Where `copy` is true, moving statistics become those of the batch, as if `momentum` were 0.

    Args:
        copy: A scalar tensor, such as whether this is the first update of the training.
    """
    return _entered(kept=1.0 - tf.cast(copy, tf.float32))


@contextlib.contextmanager
def capture_batch_statistics(update: bool = True) -> Iterator[BatchStatistics]:
    """One pass with `training=True` is normal, and its statistics are recorded by layer.

    With `update=False` the pass leaves the moving statistics alone.

    The recorded tensors are differentiable: gradients of a pass under `frozen_batch_statistics` reach the
    captured pass through them, unless the caller stops them.
    """
    statistics: BatchStatistics = {}
    with _entered(update=update, capture_in=statistics):
        yield statistics


def frozen_batch_statistics(statistics: BatchStatistics) -> contextlib.AbstractContextManager[None]:
    """Passes use `statistics`, whatever `training` says, and update nothing."""
    return _entered(frozen=statistics)


@keras.saving.register_keras_serializable(package="athe_tf")
class BatchNorm(keras.layers.BatchNormalization):
    """Batch normalization over all axes but the last, equal to PyTorch's `BatchNorm2d`.

    Batches are normalized by their biased variance, while the moving variance follows the unbiased one;
    Keras' own layer uses the biased one for both. Under mixed precision statistics are float32, and images
    keep their dtype. First and second derivatives are exact. The module's docstring describes the modes for
    crafting.

    Example:

    >>> layer = athe_tf.BatchNorm()
    >>> x = np.array([[0.0], [2.0]], "float32")
    >>> layer(x, training=True).numpy().round(3).tolist()
    [[-1.0], [1.0]]
    >>> round(float(layer.moving_variance[0]), 3)          # 0.9 * 1 + 0.1 * 2, the unbiased variance
    1.1

    Args:
        momentum: Fraction of the old moving statistic that an update keeps. Defaults to 0.9, which is
            PyTorch's 0.1.
        epsilon: Added to the variance. Defaults to 1e-5.
        synchronized: Whether replicas of a `tf.distribute` strategy share the statistics of the global
            batch, which must be divided evenly. Not possible inside a `tf.while_loop`, where replicas cannot
            communicate. Defaults to `False`.
        **kwargs: Arguments of `keras.layers.BatchNormalization`, without `axis` and `renorm`.
    """

    def __init__(self, momentum: float = 0.9, epsilon: float = 1e-5, synchronized: bool = False, **kwargs):
        check(
            kwargs.pop("axis", -1) == -1 and not kwargs.pop("renorm", False),
            "`BatchNorm` normalizes the last axis and does not support `renorm`. Use "
            "`keras.layers.BatchNormalization` instead.",
        )
        super().__init__(momentum=momentum, epsilon=epsilon, synchronized=synchronized, **kwargs)

    def call(self, inputs, training=None, mask=None):
        if mask is not None:
            raise InputError(f"`BatchNorm` does not support masks. Received one in layer '{self.name}'.")
        mode, x = _mode.get(), tf.convert_to_tensor(inputs)
        if not (x.dtype in HALF and x.shape.rank == 4):
            x = _whole(x)
        if self.trainable and mode.frozen is not None:
            y = self._affine(x, *self._captured(mode.frozen))
        elif self.trainable and training:
            y = self._normalize_batch(x, mode)
        else:
            y = self._affine(x, self.moving_mean, self.moving_variance)
        return tf.cast(y, self.compute_dtype)

    def _normalize_batch(self, x, mode: _Mode):
        # Forward and backward, the fused kernel takes half the time of the composite form on CPU (8.7 against
        # 16.7 ms for [128, 32, 32, 16]). But it has no float64, and it would silently drop gradients that
        # arrive through its statistics.
        if x.dtype != tf.float64 and mode.capture_in is None and not self._meets_replicas():
            y, mean, unbiased = self._fused(x)
        else:
            x = _whole(x)
            mean, variance, count = self._batch_moments(x)
            y = self._affine(x, mean, variance)
            unbiased = variance * count / tf.maximum(count - 1, 1)
            if mode.capture_in is not None:
                self._capture(mode.capture_in, mean, variance)
        if mode.update:
            self._update(self.moving_mean, mean, mode.kept)
            self._update(self.moving_variance, unbiased, mode.kept)
        return y

    def _fused(self, x):
        shape, flat = tf.shape(x), x if x.shape.rank == 4 else tf.reshape(x, [-1, 1, 1, x.shape[-1]])
        affine = {"scale": self._gamma(tf.float32), "offset": self._beta(tf.float32), "epsilon": self.epsilon}
        unused = {"mean": tf.constant([], tf.float32), "variance": tf.constant([], tf.float32)}
        y, mean, unbiased, *_ = tf.raw_ops.FusedBatchNormV3(x=flat, **affine, **unused, is_training=True)
        return y if x.shape.rank == 4 else tf.reshape(y, shape), mean, unbiased

    def _batch_moments(self, x):
        # Not tf.nn.moments: it stops the gradient of the mean inside the variance, which makes second
        # derivatives wrong.
        axes = list(range(x.shape.rank - 1))
        mean, shares = self._mean_over_replicas(tf.reduce_mean(x, axes))
        variance, _ = self._mean_over_replicas(tf.reduce_mean(tf.square(x - mean), axes))
        return mean, variance, tf.cast(shares * (tf.size(x) // x.shape[-1]), x.dtype)

    def _meets_replicas(self) -> bool:
        return self.synchronized and replicas.count() > 1

    def _mean_over_replicas(self, value):
        if not self._meets_replicas():
            return value, 1
        return replicas.mean(value), replicas.count()

    def _affine_form(self, mean, variance, dtype):
        scale = self._gamma(dtype) * tf.math.rsqrt(tf.cast(variance, dtype) + self.epsilon)
        return scale, self._beta(dtype) - tf.cast(mean, dtype) * scale

    def _affine(self, x, mean, variance):
        scale, shift = self._affine_form(mean, variance, tf.float64 if x.dtype == tf.float64 else tf.float32)
        if x.dtype != tf.float64 and x.shape.rank == 4:
            return scaled_and_shifted(x, scale, shift)
        return x * scale + shift

    def _gamma(self, dtype):
        return tf.cast(self.gamma, dtype) if self.scale else tf.ones_like(self.moving_mean, dtype)

    def _beta(self, dtype):
        return tf.cast(self.beta, dtype) if self.center else tf.zeros_like(self.moving_mean, dtype)

    def _update(self, variable, value, kept):
        momentum = self.momentum if kept is None else self.momentum * tf.cast(kept, variable.dtype)
        variable.assign(
            variable * momentum + tf.cast(tf.stop_gradient(value), variable.dtype) * (1 - momentum)
        )

    def _capture(self, statistics: BatchStatistics, mean, variance):
        check(
            self not in statistics,
            f"`capture_batch_statistics` records one pass, but layer '{self.name}' was called twice. Enter "
            "it anew for each pass; a model that shares a `BatchNorm` between two places cannot be captured.",
        )
        statistics[self] = mean, variance

    def _captured(self, statistics: BatchStatistics):
        check(
            self in statistics,
            f"No statistics of layer '{self.name}' were captured. Call the same model with "
            "`training=True` inside `capture_batch_statistics()` first.",
        )
        return statistics[self]

    def get_config(self):
        config = super().get_config()
        for name in ("axis", "renorm", "renorm_clipping", "renorm_momentum"):
            config.pop(name, None)
        return config


def affine_form(layer: BatchNorm) -> tuple[Any, Any]:
    """What a layer multiplies every channel by in inference mode, and what it adds, in float32."""
    return layer._affine_form(layer.moving_mean, layer.moving_variance, tf.float32)


def _whole(x):
    """The same values, in float32 instead of half precision."""
    return tf.cast(x, tf.as_dtype(keras.backend.result_type(x.dtype, "float32")))


@tf.custom_gradient
def scaled_and_shifted(x, scale, shift):
    """`x * scale + shift` for `[N, H, W, C]` in float32 or half precision, in one kernel.

    On two cores, that shortens a forward pass of a WRN-10-1 to 0.84 to 0.93 of its time, and a gradient to
    0.94 to 0.97. The kernel's own gradient would also compute the gradients of scale and shift whenever the
    images' gradient is asked for, so an attack would pay for sums that it does not use.
    """
    none = {"mean": tf.zeros_like(shift), "variance": tf.ones_like(scale), "epsilon": 0.0}
    y, *_ = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=shift, **none, is_training=False)

    def backward(upstream):
        axes, whole = [0, 1, 2], _whole(upstream)
        sums = tf.reduce_sum(whole * _whole(x), axes), tf.reduce_sum(whole, axes)
        return upstream * tf.cast(scale, upstream.dtype), *sums

    return y, backward


def synchronize(model: keras.Model) -> None:
    """Makes the replicas of a strategy share the batch statistics of all `BatchNorm` layers of `model`."""
    for layer in all_layers(model):
        if isinstance(layer, BatchNorm):
            layer.synchronized = True


def third_party_batch_norms(model: keras.Model) -> list[keras.layers.Layer]:
    """The batch normalizations of `model`, nested ones included, that ignore the modes above."""
    return [
        layer
        for layer in all_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization) and not isinstance(layer, BatchNorm)
    ]
