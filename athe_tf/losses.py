"""Training losses: cross-entropy with an angular margin, and divergences between two predictions.

The functions work on a batch and return one value per example; `athe_tf.training` averages them.
"""

import keras
import tensorflow as tf

from athe_tf.utils.errors import check
from athe_tf.utils.graph_checks import checked_labels

__all__ = [
    "MarginCrossentropy",
    "kl_divergence",
    "logit_pairing",
    "margin_crossentropy",
    "prediction_crossentropy",
]

SMALLEST_SQUARED_LENGTH = 1e-24


def margin_crossentropy(labels, logits, shift: float = 0.0, label_smoothing: float = 0.0) -> tf.Tensor:
    """Cross-entropy from logits, with `shift` subtracted from the true logit; one value per example.

    Example:

    >>> logits = np.array([[3.0, 0.0]], "float32")
    >>> athe_tf.losses.margin_crossentropy(np.array([0]), logits, shift=3.0).numpy().round(4)
    array([0.6931], dtype=float32)

    A label outside of `[0, L)` is an error; in a function compiled by XLA, which has no assertions, its loss
    is NaN.

    Args:
        labels: Integer labels `[N]`.
        logits: `[N, L]`.
        shift: Subtracted from the true logit: `scale * margin`, the s * m of Eq. 6. Defaults to 0.
        label_smoothing: Probability taken from the true class and distributed over all `L` classes.
            Defaults to 0.
    """
    classes = logits.shape[-1]
    labels = checked_labels(labels, classes)
    losses = crossentropy_of_classes(labels, logits, shift, label_smoothing)
    valid = (labels >= 0) & (labels < classes)
    return tf.where(valid, losses, tf.constant(float("nan"), losses.dtype))


def crossentropy_of_classes(labels, logits, shift: float = 0.0, label_smoothing: float = 0.0) -> tf.Tensor:
    """`margin_crossentropy` of labels that were checked before: those outside of `[0, L)` have no loss."""
    classes = logits.shape[-1]
    target = tf.one_hot(labels, classes, dtype=logits.dtype)
    # The one-hot form is twice differentiable; the sparse kernel was not for years (tensorflow#31700).
    log_probabilities = tf.nn.log_softmax(logits - shift * target)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    return -tf.reduce_sum(target * log_probabilities, axis=-1)


def kl_divergence(reference_logits, logits) -> tf.Tensor:
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
    log_p = tf.nn.log_softmax(reference_logits)
    return tf.reduce_sum(tf.exp(log_p) * (log_p - tf.nn.log_softmax(logits)), axis=-1)


def prediction_crossentropy(reference_logits, logits) -> tf.Tensor:
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
    return -tf.reduce_sum(tf.nn.softmax(reference_logits) * tf.nn.log_softmax(logits), axis=-1)


def logit_pairing(logits, other_logits, form: str = "mse") -> tf.Tensor:
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
    squares = tf.square(logits - other_logits)
    if form == "mse":
        return tf.reduce_mean(squares, axis=-1)
    # The slope of the root is infinite at 0, where the two predictions are the same.
    return tf.sqrt(tf.maximum(tf.reduce_sum(squares, axis=-1), SMALLEST_SQUARED_LENGTH))


@keras.saving.register_keras_serializable(package="athe_tf")
class MarginCrossentropy(keras.losses.Loss):
    """Cross-entropy that asks for a margin: Eq. 6 of the hypersphere-embedding paper.

    `scale * margin` is subtracted from the logit of the true class before a stable cross-entropy from
    logits. The logits are those of `athe_tf.CosineDense`, which are already scaled. The margin is used in
    training only, not for predictions and attacks.

    Example:

    >>> loss = athe_tf.MarginCrossentropy(margin=0.2, scale=15.0)
    >>> round(float(loss(np.array([0]), np.array([[3.0, 0.0]]))), 4)     # log(1 + exp(15 * 0.2 - 3)) = log 2
    0.6931

    Args:
        margin: The m of the paper: a difference of cosines for HE (0.2 there), of angles in radians
            for m-HE (0.1 there). Defaults to `0.2`.
        scale: The s of the paper, that of the head. Defaults to `15.0`.
        label_smoothing: Probability distributed uniformly over all classes. Defaults to `0.0`.

    Reference:
        Pang et al., NeurIPS 2020, Eq. 6; the form is CosFace's (Wang et al., CVPR 2018).
    """

    def __init__(
        self,
        margin: float = 0.2,
        scale: float = 15.0,
        label_smoothing: float = 0.0,
        name: str = "margin_crossentropy",
        reduction: str = "sum_over_batch_size",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        check(margin >= 0, f"`margin` must not be negative. Received: margin={margin}.")
        check(scale > 0, f"`scale` must be larger than 0. Received: scale={scale}.")
        check(
            0 <= label_smoothing < 1,
            f"`label_smoothing` must lie in [0, 1). Received: label_smoothing={label_smoothing}.",
        )
        self.margin = margin
        self.scale = scale
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        check(
            y_true.shape.rank != y_pred.shape.rank or y_true.shape[-1] in (1, None),
            f"Expected labels as integers of shape [batch]. Received: the shape {y_true.shape}. Take the "
            "argmax of one-hot labels.",
        )
        labels = tf.reshape(y_true, tf.shape(y_pred)[:-1])
        return margin_crossentropy(labels, y_pred, self.scale * self.margin, self.label_smoothing)

    def get_config(self):
        return super().get_config() | {
            "margin": self.margin,
            "scale": self.scale,
            "label_smoothing": self.label_smoothing,
        }
