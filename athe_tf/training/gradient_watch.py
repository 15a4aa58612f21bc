"""Says when the numbers of a training are not what they seem: images without a gradient, and a wide gap."""

import contextlib
import warnings
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine import gradient_health
from athe_tf.utils.errors import InputError, NoGradients
from athe_tf.utils.graph_checks import checked

# Shares of the images of an epoch: said if more have no gradient; and accuracies, if they differ by more.
LARGEST_SHARE, LARGEST_GAP = 0.01, 0.25
#: How the error of a loss that is not finite begins.
LOSS_NOT_FINITE = "The training loss is not a number. "
#: A training stops after this many steps without a gradient.
STEPS = 200
CAUSE = (
    "Look in the model for tf.where around a value that can be NaN (its gradient is NaN too), "
    "tf.stop_gradient, rounding, an integer input, and logits so large that the softmax is 0 or 1."
)


def checked_gradient(losses, gradient):
    """The input gradient of `losses`, for a training loss; an error if only the gradient is not finite."""
    finite = [tf.reduce_all(tf.math.is_finite(value)) for value in (losses, gradient)]
    return checked(
        gradient,
        finite[1] | ~finite[0],
        "The training loss contains gradients with respect to the images, and they are not finite although "
        f"the loss of the images is. {CAUSE}",
    )


class GradientCounts:
    """The images of an epoch, and how many of them had no gradient; sums over all replicas.

    Not a Keras metric: what is logged, and what a backup contains, stays the same.
    """

    def __init__(self):
        # Images, zero, not finite, nothing to follow.
        self.variable = tf.Variable(
            tf.zeros([4], tf.int64),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    @contextlib.contextmanager
    def counting(self, epsilon) -> Iterator[None]:
        """Counts what is crafted in the context, unless epsilon is 0; graph code."""
        try:
            with gradient_health.collected() as flags:
                yield
        except NoGradients as error:
            text = (
                "The model has no gradient with respect to its input, so adversarial examples cannot be made."
            )
            raise InputError(f"{text} {CAUSE}") from error
        if flags:
            attacked = tf.cast(tf.convert_to_tensor(epsilon) > 0, tf.int64)
            self.variable.assign_add(attacked * gradient_health.counts(flags))

    def read(self) -> np.ndarray:
        """The four numbers."""
        return np.asarray(self.variable)

    def reset(self) -> None:
        """Begins to count again."""
        self.variable.assign(tf.zeros([4], tf.int64))


class GradientWatch(keras.callbacks.Callback):
    """Warns of epochs in which images had no gradient, and stops a training in which none has one.

    Every `fit` and `evaluate` of a trainer has one. It also says when robust accuracy in training is far
    above that in validation, once.

    Example:

    >>> trainer.fit(x, y, callbacks=[GradientWatch(print)])

    Args:
        write: Called with each line. Defaults to a Python warning.
    """

    def __init__(self, write: Callable | None = None):
        super().__init__()
        self.write = write or (lambda line: warnings.warn(line, stacklevel=5))
        self._gap_told = False

    def on_train_begin(self, logs=None):
        self.model.crafted.reset()
        # The step at which a window began, below 0 in an epoch before, and the counts until then.
        self._first, self._before, self._done = 0, np.zeros(4, int), 0

    def on_epoch_begin(self, epoch, logs=None):
        self._first, self._before, self._done = (
            self._first - self._done,
            self._before - self.model.crafted.read(),
            0,
        )
        self.model.crafted.reset()

    def on_train_batch_end(self, batch, logs=None):
        if not np.isfinite((logs or {}).get("loss", 0.0)):
            # In a compiled step, whose check XLA drops.
            remedy = "go back to saved ones, and lower the learning rate. Are the images in [0, 1]?"
            raise InputError(f"{LOSS_NOT_FINITE}XLA has updated the weights: {remedy}")
        self._done = batch + 1
        if self._done - self._first >= STEPS:
            counts = self.model.crafted.read()
            self._stop_if_none(counts - self._before, f"{self._done - self._first} steps")
            self._first, self._before = self._done, counts

    def on_epoch_end(self, epoch, logs=None):
        counts = self.model.crafted.read()
        self._stop_if_none(counts, "an epoch")
        self._say(counts, f"training images of epoch {epoch + 1}", "The training attack could not move them")
        gap = (logs or {}).get("robust_accuracy", 0.0) - (logs or {}).get("val_robust_accuracy", 1.0)
        if gap > LARGEST_GAP and not self._gap_told:
            self._gap_told = True
            self.write(
                f"Robust accuracy in epoch {epoch + 1} is {100 * gap:.0f} points higher on the training "
                "images than on the validation images. Either the model overfits, or the training attack is "
                "weak, or batch normalization has not settled yet, or training sees other images than the "
                "attack made: random layers or dropout inside the model."
            )

    def on_test_begin(self, logs=None):
        self.model.validated.reset()

    def on_test_end(self, logs=None):
        self._say(
            self.model.validated.read(),
            "validation images",
            "The validation attack could not move them, so robust accuracy is too high",
        )

    def _say(self, counts, images: str, effect: str) -> None:
        seen, zero, nonfinite, _ = counts.tolist()
        if zero + nonfinite > LARGEST_SHARE * seen:
            shares = f"{min(1, (zero + nonfinite) / seen):.1%} of the {images} had an input gradient that is"
            self.write(
                f"{shares} zero ({zero / seen:.1%}) or not finite ({nonfinite / seen:.1%}). {effect}. {CAUSE}"
            )

    def _stop_if_none(self, counts, period: str) -> None:
        seen, zero, nonfinite, unusable = counts.tolist()
        if seen and unusable == seen:
            raise InputError(
                f"Training stopped: none of the {seen} training images of {period} had an input gradient "
                f"that is finite and not zero (zero: {zero}, not finite: {nonfinite}): nothing was attacked. "
                f"{CAUSE}"
            )


def with_watch(callbacks):
    """The callbacks of `fit` or `evaluate`, with a `GradientWatch` unless there is one."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    found = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    return found if any(isinstance(each, GradientWatch) for each in found) else [GradientWatch(), *found]
