"""Training losses: cross-entropy with an angular margin, and divergences between two predictions.

The functions work on a batch and return one value per example; `athe_tf.training` averages them. They and
`MarginCrossentropy` are made of `keras.ops`: like `CosineDense`, they run on every backend of Keras.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from athe_tf.layers.cosine_dense import CosineDense, LogitsOrigin, origin_of
from athe_tf.utils.choices import MARGIN_FORMS
from athe_tf.utils.errors import InputError, check, check_choice
from athe_tf.utils.keras_compat import all_layers
from athe_tf.utils.label_checks import checked_labels, checked_probabilities, is_soft

__all__ = [
    "MarginCrossentropy",
    "add_margin",
    "kl_divergence",
    "logit_pairing",
    "margin_crossentropy",
    "prediction_crossentropy",
]

SMALLEST_SQUARED_LENGTH = 1e-24
# The sine of an angle is kept above the root of this, where the slope of the root is infinite.
SMALLEST_SQUARED_SINE = 1e-14


def margin_crossentropy(labels, logits, shift: float = 0.0, label_smoothing: float = 0.0) -> Any:
    """Cross-entropy from logits, with `shift` subtracted from the true logit; one value per example.

    Example:

    >>> logits = np.array([[3.0, 0.0]], "float32")
    >>> athe_tf.losses.margin_crossentropy(np.array([0]), logits, shift=3.0).numpy().round(4)
    array([0.6931], dtype=float32)

    A label outside of `[0, L)` is an error; in a function compiled by XLA, as all of JAX are, its loss is
    NaN: XLA has no assertions.

    Args:
        labels: Integer labels `[N]`, or probabilities `[N, L]`, as of mixup, whose values are not checked.
        logits: `[N, L]`.
        shift: Subtracted from the true logit: `scale * margin`, the s * m of Eq. 6. Defaults to 0.
        label_smoothing: Probability taken from the true class and distributed over all `L` classes.
            Defaults to 0.
    """
    if is_soft(labels):
        return crossentropy_of_classes(labels, logits, shift, label_smoothing)
    labels = checked_labels(labels, logits.shape[-1])
    return _unless_invalid(labels, logits, crossentropy_of_classes(labels, logits, shift, label_smoothing))


def crossentropy_of_classes(labels, logits, shift: float = 0.0, label_smoothing: float = 0.0) -> Any:
    """`margin_crossentropy` of labels that were checked before: those outside of `[0, L)` have no loss."""
    target = as_probabilities(labels, logits)
    return _crossentropy_of_target(target, logits - shift * target, label_smoothing)


def as_probabilities(labels, logits) -> Any:
    """Labels, integers or soft, as probabilities of the shape and dtype of the logits."""
    dtype = keras.backend.standardize_dtype(logits.dtype)
    return ops.cast(labels, dtype) if is_soft(labels) else ops.one_hot(labels, logits.shape[-1], dtype=dtype)


def _crossentropy_of_target(target, logits, label_smoothing: float) -> Any:
    # The one-hot form is twice differentiable; the sparse kernel was not for years (tensorflow#31700).
    log_probabilities = ops.log_softmax(logits)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / logits.shape[-1]
    return -ops.sum(target * log_probabilities, axis=-1)


def _unless_invalid(labels, logits, losses) -> Any:
    """The losses, and NaN for labels that are not valid, where XLA has no assertions."""
    return ops.where((labels >= 0) & (labels < logits.shape[-1]), losses, float("nan"))


def add_margin(target, logits, margin, scale: float, form: str = "cosine") -> Any:
    """Logits that are harder to get right: the true class loses a margin.

    With one-hot labels only the true logit changes. With soft labels, as of mixup, every logit moves the
    share of the way that its class has of the label.

    Example:

    >>> logits = np.array([[15.0, 0.0]], "float32")
    >>> athe_tf.losses.add_margin(np.array([[1.0, 0.0]], "float32"), logits, margin=0.2, scale=15.0).numpy()
    array([[12.,  0.]], dtype=float32)

    Args:
        target: Labels as probabilities `[N, L]`; one-hot for a class.
        logits: `[N, L]`, from a `CosineDense` with the same `scale`.
        margin: A number, or one for each class.
        scale: The scale of the head.
        form: See `MarginCrossentropy`. Defaults to `"cosine"`.
    """
    target, logits = ops.convert_to_tensor(target), ops.convert_to_tensor(logits)
    margin = np.asarray(margin)
    if form != "arc":
        return logits - ops.convert_to_tensor(scale * margin, logits.dtype) * target
    return (1.0 - target) * logits + target * _turned(logits, margin, scale)


def _turned(logits, margin, scale: float) -> Any:
    """`scale * cos(theta + margin)` from `scale * cos(theta)`; decreases in theta on all of [0, pi]."""
    # (s - y)(s + y) is exact to the last digits for angles near 0 and pi, where s^2 - y^2 cancels.
    squared = (scale - logits) * (scale + logits)
    sine = ops.sqrt(ops.maximum(squared, SMALLEST_SQUARED_SINE * scale**2))
    cosine_of_margin = ops.convert_to_tensor(np.cos(margin), logits.dtype)
    turned = logits * cosine_of_margin - sine * ops.convert_to_tensor(np.sin(margin), logits.dtype)
    # cos rises again where theta + margin > pi. Its mirror image at -1 goes on falling, without a kink.
    beyond = logits < -scale * cosine_of_margin
    return ops.where(beyond, -2.0 * scale - turned, turned)


def kl_divergence(reference_logits, logits) -> Any:
    """`KL(softmax(reference) || softmax(logits))`; one value per example.

    Computed from log-softmax on both sides, so that a probability that underflows to zero contributes
    zero instead of NaN.

    Example:

    >>> logits = np.array([[1.0, 0.0]], "float32")
    >>> athe_tf.losses.kl_divergence(logits, logits).numpy()
    array([0.], dtype=float32)

    Args:
        reference_logits: `[N, L]`.
        logits: `[N, L]`.
    """
    log_p = ops.log_softmax(reference_logits)
    return ops.sum(ops.exp(log_p) * (log_p - ops.log_softmax(logits)), axis=-1)


def prediction_crossentropy(reference_logits, logits) -> Any:
    """`-sum of softmax(reference) * log softmax(logits)`; one value per example.

    It is `kl_divergence` plus the entropy of the reference.

    Example:

    >>> logits = np.array([[1.0, 1.0]], "float32")
    >>> athe_tf.losses.prediction_crossentropy(logits, logits).numpy().round(4)
    array([0.6931], dtype=float32)

    Args:
        reference_logits: `[N, L]`.
        logits: `[N, L]`.
    """
    return -ops.sum(ops.softmax(reference_logits) * ops.log_softmax(logits), axis=-1)


def logit_pairing(logits, other_logits, form: str = "mse") -> Any:
    """The distance between two predictions; one value per example.

    Example:

    >>> one, other = np.array([[1.0, 0.0]], "float32"), np.array([[0.0, 0.0]], "float32")
    >>> athe_tf.losses.logit_pairing(one, other).numpy()
    array([0.5], dtype=float32)

    Args:
        logits: `[N, L]`.
        other_logits: `[N, L]`.
        form: `"mse"` (default), the mean of the squared differences over the classes, or `"l2"`, the
            Euclidean norm of the difference.
    """
    squares = ops.square(logits - other_logits)
    if form == "mse":
        return ops.mean(squares, axis=-1)
    # The slope of the root is infinite at 0, where the two predictions are the same.
    return ops.sqrt(ops.maximum(ops.sum(squares, axis=-1), SMALLEST_SQUARED_LENGTH))


@keras.saving.register_keras_serializable(package="athe_tf")
class MarginCrossentropy(keras.losses.Loss):
    """Cross-entropy that asks for a margin: Eq. 6 of the hypersphere-embedding paper.

    The logits come from `athe_tf.CosineDense` and are already scaled. The logit of the true class is
    made smaller before a stable cross-entropy from logits. The margin is used in training only, not for
    predictions and attacks. With theta the angle between the features and the true class:

    | `form` | head | true logit | known as |
    |---|---|---|---|
    | `"cosine"` | `CosineDense(...)` | `scale * (cos(theta) - margin)` | CosFace, HE |
    | `"angle"` | `CosineDense(..., angular=True)` | `-scale * (theta + margin)` | m-HE |
    | `"arc"` | `CosineDense(...)` | `scale * cos(theta + margin)` | ArcFace |

    Where `theta + margin` exceeds pi, `"arc"` goes on as `scale * (-2 - cos(theta + margin))`, which keeps
    falling and joins smoothly.

    Labels are integers, one-hot, or soft (mixup, CutMix, smoothing), where every logit gets its class' share
    of the margin. A label outside the classes is an error. So is, at the first step, a `CosineDense` with
    another scale: `MarginCrossentropy.for_head` takes the scale from the head.

    Example:

    >>> loss = athe_tf.MarginCrossentropy(margin=0.2, scale=15.0)
    >>> round(float(loss(np.array([0]), np.array([[3.0, 0.0]]))), 4)     # log(1 + exp(15 * 0.2 - 3)) = log 2
    0.6931

    Args:
        margin: The m of the paper: a difference of cosines for `"cosine"` (0.2 in the HE paper, 0.35 in
            CosFace), of angles in radians for the others (0.1 in m-HE, 0.5 in ArcFace). A sequence has one
            margin for each class, for example larger ones for rare classes. Defaults to `0.2`.
        scale: The s of the paper, the head's scale. Defaults to `15.0`.
        label_smoothing: Probability distributed uniformly over all classes. Defaults to `0.0`.
        form: `"cosine"` (default), `"angle"` or `"arc"`.

    Reference:
        Pang et al., NeurIPS 2020, Eq. 6; Wang et al., "CosFace", CVPR 2018; Deng et al., "ArcFace", CVPR
        2019. A margin per class: Cao et al., NeurIPS 2019 (LDAM).
    """

    def __init__(
        self,
        margin: float | Sequence[float] = 0.2,
        scale: float = 15.0,
        label_smoothing: float = 0.0,
        name: str = "margin_crossentropy",
        reduction: str = "sum_over_batch_size",
        dtype=None,
        *,
        form: str = "cosine",
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        check_choice("form", form, MARGIN_FORMS)
        check(scale > 0, f"`scale` must be larger than 0. Received: scale={scale}.")
        check(
            0 <= label_smoothing < 1,
            f"`label_smoothing` must lie in [0, 1). Received: label_smoothing={label_smoothing}.",
        )
        self.margin = _checked_margin(margin, form)
        self.scale, self.label_smoothing, self.form = scale, label_smoothing, form

    @classmethod
    def for_head(
        cls, model_or_layer, margin: float | Sequence[float] = 0.2, **kwargs
    ) -> "MarginCrossentropy":
        """The loss for a head: the scale, and for an angular head the form, are the head's own.

        Example:

        >>> features = keras.Input((64,))
        >>> model = keras.Model(features, athe_tf.CosineDense(10, scale=20.0)(features))
        >>> model.compile("sgd", loss=athe_tf.MarginCrossentropy.for_head(model, 0.5, form="arc"))
        >>> model.loss.scale
        20.0

        Args:
            model_or_layer: A `CosineDense`, or a Keras model that contains one, however deeply nested.
            margin: See `MarginCrossentropy`. Defaults to `0.2`.
            **kwargs: Further arguments of `MarginCrossentropy`. `form` defaults to `"angle"` for an angular
                head, else to `"cosine"`.
        """
        head = _only_head(model_or_layer)
        loss = cls(margin, head.scale, **{"form": "angle" if head.angular else "cosine"} | kwargs)
        loss._check_origin(head._origin())
        loss._check_classes(head.units)
        return loss

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Here and not in `call`, which may see a copy in another precision.
        origin = origin_of(y_pred)
        if origin is not None:
            self._check_origin(origin)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        classes = y_pred.shape[-1]
        self._check_classes(classes)
        if y_true.ndim == y_pred.ndim and y_true.shape[-1] == classes and classes != 1:
            return self._of_target(checked_probabilities(y_true), y_pred)
        check(
            y_true.ndim != y_pred.ndim or y_true.shape[-1] in (1, None),
            f"Expected labels as integers of shape [batch], or as probabilities of shape {y_pred.shape}. "
            f"Received: the shape {y_true.shape}. Give the model one logit per class.",
        )
        labels = checked_labels(ops.reshape(y_true, ops.shape(y_pred)[:-1]), classes)
        return _unless_invalid(labels, y_pred, self._of_target(as_probabilities(labels, y_pred), y_pred))

    def _of_target(self, target, logits) -> Any:
        harder = add_margin(target, logits, self.margin, self.scale, self.form)
        return _crossentropy_of_target(target, harder, self.label_smoothing)

    def _check_classes(self, classes: int) -> None:
        check(
            not isinstance(self.margin, list) or len(self.margin) == classes,
            f"A sequence of margins has one for each class. Expected: {classes}. Received: "
            f"{np.size(self.margin)}.",
        )

    def _check_origin(self, origin: LogitsOrigin) -> None:
        """Raises `InputError` for logits that this loss cannot add its margin to."""
        check(
            math.isclose(origin.scale, self.scale, rel_tol=1e-6),
            f"The scale of the loss is not that of the head. Expected: scale={origin.scale:g}, that of the "
            f"CosineDense '{origin.layer}'. Received: scale={self.scale:g} in MarginCrossentropy. Write it "
            "once: MarginCrossentropy.for_head(model, margin).",
        )
        check(
            self.form != "angle" or origin.angular,
            "`form='angle'` needs logits that are angles. Received: those of the CosineDense "
            f"'{origin.layer}', which are cosines. Use form='cosine' or 'arc', or angular=True in the layer.",
        )
        kind = "angles" if origin.angular else "not normalized on both sides"
        check(
            self.form != "arc" or (origin.cosines and not origin.angular),
            "`form='arc'` needs logits that are cosines. Received: those of the CosineDense "
            f"'{origin.layer}', which are {kind}. Use "
            f"form={'angle' if origin.angular else 'cosine'!r}.",
        )

    def get_config(self):
        own = {name: getattr(self, name) for name in ("margin", "scale", "label_smoothing", "form")}
        return super().get_config() | own


def _checked_margin(margin: Any, form: str) -> float | list[float]:
    values = np.asarray(margin)
    numeric = values.dtype.kind in "iuf" and values.ndim <= 1 and values.size > 0
    check(
        numeric and bool(np.all(values >= 0)) and bool(np.all(np.isfinite(values))),
        f"`margin` must not be negative: a finite number, or one for each class. Received: margin={margin}.",
    )
    check(
        form != "arc" or float(np.max(values)) <= math.pi,
        f"A margin of angles must not exceed pi. Received: margin={margin}.",
    )
    return values.tolist()


def _only_head(model_or_layer) -> CosineDense:
    """The `CosineDense` of a model; raises `InputError` unless there is exactly one."""
    layers = all_layers(model_or_layer) if isinstance(model_or_layer, keras.layers.Layer) else []
    heads = [layer for layer in layers if isinstance(layer, CosineDense)]
    if len(heads) != 1:
        raise InputError(
            "Expected a CosineDense layer, or a Keras model that contains exactly one. Received: "
            f"{type(model_or_layer).__name__} with {len(heads)} of them. Give the layer itself."
        )
    return heads[0]
