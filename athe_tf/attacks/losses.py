"""What an attack maximizes: small functions from logits to one value per example.

Every loss takes `(logits, labels)`, in training also with soft labels `[N, L]`, and those that compare with
something take it as `reference`: the clean logits for `kl` and `mse`. A targeted attack maximizes the
negative of a loss toward the target.
"""

import tensorflow as tf

from athe_tf.losses import as_probabilities, crossentropy_of_classes, kl_divergence
from athe_tf.utils.errors import InputError
from athe_tf.utils.label_checks import is_soft, most_probable
from athe_tf.utils.registry import unknown_name

# Far below any logit, far above the float32 range in which margins would lose digits.
MASKED = -1e8


def true_logit(logits, labels):
    """The logit of the label of each example; of soft labels the mean over the classes."""
    if is_soft(labels):
        return tf.reduce_sum(labels * logits, axis=-1)
    return tf.gather(logits, labels, batch_dims=1)


def best_other(logits, labels):
    """The largest logit among the other classes.

    The label is masked, not multiplied by zero: when every other logit is negative, as cosines often
    are, a zero in the label's place would win.
    """
    mask = tf.one_hot(
        most_probable(labels), tf.shape(logits)[-1], on_value=MASKED, off_value=0.0, dtype=logits.dtype
    )
    return tf.reduce_max(logits + mask, axis=-1)


def ce(logits, labels, reference=None):
    """Cross-entropy."""
    return crossentropy_of_classes(labels, logits)


def margin(logits, labels, reference=None):
    """Largest other logit minus the true one: positive when misclassified, at any logit scale."""
    return best_other(logits, labels) - true_logit(logits, labels)


def dlr(logits, labels, reference=None):
    """Difference of logits ratio (Croce and Hein, 2020): the margin over the gap of first and third.

    Invariant to shift and positive scale. Needs three classes.
    """
    top = tf.math.top_k(logits, k=3).values
    return margin(logits, labels) / (top[:, 0] - top[:, 2] + 1e-12)


def dlr_targeted(logits, labels, targets):
    """The targeted difference of logits ratio; with fewer than four classes, their `gap`."""
    if logits.shape[-1] is not None and logits.shape[-1] < 4:
        return gap(logits, labels, targets)
    top = tf.math.top_k(logits, k=4).values
    return gap(logits, labels, targets) / (top[:, 0] - 0.5 * (top[:, 2] + top[:, 3]) + 1e-12)


def gap(logits, labels, targets):
    """The logit of a target minus the true one: MultiTargeted's loss."""
    return true_logit(logits, targets) - true_logit(logits, labels)


def kl(logits, labels, reference):
    """`KL(softmax(clean) || softmax(adversarial))`, the inner objective of TRADES."""
    return kl_divergence(tf.stop_gradient(reference), logits)


def squared_distance(reference, logits):
    """The squared Euclidean distance of two predictions as probabilities: SCORE's divergence."""
    return tf.reduce_sum(tf.math.squared_difference(tf.nn.softmax(logits), tf.nn.softmax(reference)), axis=-1)


def mse(logits, labels, reference):
    """`squared_distance` from the clean prediction, the inner objective of SCORE."""
    return squared_distance(tf.stop_gradient(reference), logits)


def squared_error(logits, labels, reference=None):
    """The squared Euclidean distance of a prediction from the label, both as probabilities."""
    difference = tf.nn.softmax(logits) - as_probabilities(labels, logits)
    return tf.reduce_sum(tf.square(difference), axis=-1)


def he(logits, labels, reference=None, shift=0.0):
    """The hypersphere-embedding training loss (Eq. 6) as an attack; `shift` is scale times margin."""
    return crossentropy_of_classes(labels, logits, shift)


def feature(features, labels, targets):
    """Cosine similarity between the features of two images: Feature Attack."""
    a, b = (tf.math.l2_normalize(v, axis=-1) for v in (features, targets))
    return tf.reduce_sum(a * b, axis=-1)


LOSSES = {"ce": ce, "margin": margin, "dlr": dlr, "kl": kl, "mse": mse, "he": he}
#: Those that compare with the clean logits.
REFERENCED = ("kl", "mse")


def get(name: str):
    """The loss of a name.

    Example:

    >>> float(get("margin")(tf.constant([[1.0, 3.0]]), tf.constant([0]))[0])
    2.0
    """
    if name not in LOSSES:
        raise unknown_name("attack loss", name, LOSSES)
    return LOSSES[name]


def scale_factor(logit_scale, victim):
    """The factor that brings the logits of a victim to the requested scale."""
    return 1.0 if logit_scale == "model" else logit_scale / victim.scale


def check_classes(name: str, classes: int | None) -> None:
    """Raises `InputError` if a loss needs more classes."""
    needed = {"dlr": 3}.get(name, 2)
    if classes is not None and classes < needed:
        raise InputError(
            f"The attack loss '{name}' needs at least {needed} classes. Received: num_classes={classes}. "
            "Use 'margin' instead."
        )
