"""What a model predicts for clean images, and what must be known before its robustness is believed."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine import model_checks
from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.attacks.engine.results import misclassified
from athe_tf.evaluation.measures import confidences
from athe_tf.models.victim import Victim
from athe_tf.results.intervals import wilson_interval
from athe_tf.results.notices import Notice
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.images_and_labels import check_classes

# Images that are tested, and those whose logits are kept, for warnings and for angles.
IMAGES, MAX_EXAMPLES = 200, 1000
# The smallest normal float32: its logarithm is finite.
SMALLEST = float(np.finfo(np.float32).tiny)
# The largest difference, relative to the largest logit, between an image alone and in its batch.
SAME = 1e-3
# Another range of inputs must be better by this much, and by more than chance explains.
CLEARLY_BETTER = 0.1
# A class that is predicted for this share of the images, and of at least so many images of other classes.
NEARLY_ALL, FEWEST_OTHERS = 0.95, 10


@dataclasses.dataclass(frozen=True)
class CleanPredictions:
    """What a model predicts for clean images.

    Attributes:
        correct: Whether each image is classified correctly.
        confidence: The largest probability of each image.
        logits: Logits of the first images.
        predicted: The class that each image is taken for.
        nonfinite: How many images have logits that are not finite; they count as misclassified.
    """

    correct: np.ndarray
    confidence: np.ndarray
    logits: np.ndarray
    predicted: np.ndarray
    nonfinite: int = 0


def predict_clean_images(victim: Victim, images, labels, batch_size: int) -> CleanPredictions:
    """Makes one pass over all images, and keeps three values per image and the logits of the first ones."""
    correct, confidence, kept, predicted, nonfinite = [], [], [], [], 0
    for start, logits in clean_logits(victim, images, batch_size):
        values = np.asarray(logits)
        _check_shape(victim, values, len(images[start : start + batch_size]), labels)
        correct.append(~misclassified(logits, labels[start : start + batch_size]).numpy())
        confidence.append(confidences(values))
        predicted.append(values.argmax(axis=1))
        nonfinite += int((~np.isfinite(values).all(axis=1)).sum())
        if start < MAX_EXAMPLES:
            kept.append(values)
    parts = [np.concatenate(each) for each in (correct, confidence, kept, predicted)]
    return CleanPredictions(parts[0], parts[1], parts[2][:MAX_EXAMPLES], parts[3], nonfinite)


def check_class_count(victim: Victim, classes: int | None) -> None:
    """Raises `InputError` for a model with one output per image."""
    check(
        classes != 1,
        f"The model '{victim.name}' has one output per image. Expected one logit for each of at least 2 "
        "classes. Received: num_classes=1. If the output is the logit of the second of two classes, use "
        "lambda x: tf.concat([tf.zeros_like(model(x)), model(x)], axis=1).",
    )


def _check_shape(victim: Victim, logits: np.ndarray, count: int, labels) -> None:
    check(
        logits.ndim == 2 and len(logits) == count,
        f"A model must return one row of logits per image. Expected: shape=({count}, classes). "
        f"Received: shape={logits.shape} from '{victim.name}'.",
    )
    check_class_count(victim, int(logits.shape[-1]))
    if victim.num_classes is None:  # the first batch of a callable shows it
        victim.num_classes = int(logits.shape[-1])
    remedy = f"Use the data set that '{victim.name}' was trained on."
    check_classes(np.asarray(labels), victim.num_classes, remedy=remedy)


@dataclasses.dataclass(frozen=True)
class ModelDiagnosis:
    """What was found out about a model.

    Attributes:
        outputs: What the outputs look like: `"logits"`, `"probabilities"`, `"sigmoid outputs"` or `"cosines
            without a scale"`.
        saturated: The share of images whose margin is so large that cross-entropy rounds to zero.
        scale_warnings: What the logits say against attacks on cross-entropy, in sentences.
        deterministic: Whether the same images give the same logits in every pass.
        accuracy: The accuracy on the images that were tested.
        better_inputs: How the model seems to expect its images if not in [0, 1], and its accuracy then.
        only_class: The class that is predicted for nearly all images, and for how many; `None` if there is
            none.
        nonfinite: How many clean images have logits that are not finite.
        independent: Whether the first image has the same logits alone as in its batch.
    """

    outputs: str
    saturated: float
    scale_warnings: list[str]
    deterministic: bool
    accuracy: float
    better_inputs: tuple[str, float] | None
    only_class: tuple[int, float] | None = None
    nonfinite: int = 0
    independent: bool = True

    @property
    def warnings(self) -> list[str]:
        """Everything unusual, in sentences."""
        warnings = list(self.scale_warnings)
        if self.nonfinite:
            text = (
                f"{self.nonfinite:,} clean images have logits that are NaN or infinite, and count as "
                "misclassified. Look for a division, a logarithm or an overflow in the model."
            )
            warnings.append(Notice(text, id="nan-logits"))
        if not self.independent and self.deterministic:
            text = (
                "The logits of an image depend on the other images in its batch (batch normalization in "
                "training mode?), so there is no accuracy of this model: it changes with the batches. Call "
                "the model in inference mode."
            )
            warnings.append(Notice(text, id="batch-dependent"))
        if not self.deterministic:
            text = (
                "The model is randomized: its logits change from pass to pass (dropout or noise at "
                "inference?). An image may survive an attack by luck, so accuracies are too high. Make the "
                "model deterministic; or average gradients (gradient_passes=16), and let several passes "
                "decide (random_passes)."
            )
            warnings.append(Notice(text, id="randomized-model"))
        if self.only_class is not None:
            label, share = self.only_class
            text = (
                f"The model predicts class {label} for {share:.4g}% of the images, whatever they show. Its "
                "accuracy, clean and under attack, is little more than the share of that class. Train it "
                "longer, with a smaller learning rate or with balanced classes."
            )
            warnings.append(Notice(text, id="majority-class"))
        if self.better_inputs is not None:
            how, accuracy = self.better_inputs
            text = (
                "The model seems to expect other inputs than images in [0, 1]: its accuracy is "
                f"{self.accuracy:.1%} on the images as they are, and {accuracy:.1%} when they are {how}. Put "
                "the normalization inside the model: athe_tf.models does it for you."
            )
            warnings.append(Notice(text, id="input-range"))
        return warnings


def _kind_of(outputs: np.ndarray) -> str:
    if model_checks.like_probabilities(outputs):
        return "probabilities"
    if model_checks.like_sigmoids(outputs):
        return "sigmoid outputs"
    return "cosines without a scale" if np.abs(outputs).max() <= 1 + 1e-5 else "logits"


def diagnose(victim: Victim, images, labels, clean: CleanPredictions) -> ModelDiagnosis:
    """Tests a model from outside: a few forward passes of the first 200 images."""
    x, y = images[:IMAGES], labels[:IMAGES]
    accuracy = float(clean.correct[:IMAGES].mean())
    outputs, known = clean.logits, labels[: len(clean.logits)]
    return ModelDiagnosis(
        outputs=_kind_of(outputs),
        saturated=model_checks.saturated_share(outputs, known),
        scale_warnings=model_checks.scale_warnings(outputs, known),
        deterministic=model_checks.deterministic_logits(victim, x),
        accuracy=accuracy,
        better_inputs=None if clean.nonfinite else find_better_inputs(victim, x, y, accuracy),
        nonfinite=clean.nonfinite,
        only_class=find_only_class(clean.predicted, np.asarray(labels)),
        independent=_same_alone(victim, x, outputs),
    )


def _same_alone(victim: Victim, x, outputs: np.ndarray) -> bool:
    """Whether the first image has the logits alone that it has in its batch; one pass of one image."""
    alone = victim.compiled_logits(tf.convert_to_tensor(x[:1], tf.float32)).numpy()[0]
    return bool(
        np.allclose(alone, outputs[0], rtol=0, atol=SAME * max(1.0, np.abs(alone).max()), equal_nan=True)
    )


def find_only_class(predicted: np.ndarray, labels: np.ndarray) -> tuple[int, float] | None:
    """The class that is predicted for nearly all images, and for how many percent, if there is one.

    Nearly all: 95% of all images, and 95% of those of other classes, of which there must be ten: a good model
    on images of mainly one class has none.

    Example:

    >>> find_only_class(np.full(40, 3), np.arange(40) % 10)
    (3, 100.0)
    """
    label = int(np.bincount(predicted).argmax())
    of_others = predicted[labels != label] == label
    share = float((predicted == label).mean())
    if len(of_others) < FEWEST_OTHERS or min(share, of_others.mean()) < NEARLY_ALL:
        return None
    return label, 100 * share


def find_better_inputs(victim: Victim, x, y, accuracy: float) -> tuple[str, float] | None:
    """The usual normalization of inputs under which a model is clearly better than with [0, 1], if any."""
    mean, std = x.mean(axis=(0, 1, 2)), np.maximum(x.std(axis=(0, 1, 2)), 1 / 255)
    candidates = {
        "standardized (mean 0, variance 1)": (x - mean) / std,
        "scaled to [-1, 1]": 2 * x - 1,
        "scaled to [0, 255]": 255 * x,
    }
    found = {name: _accuracy(victim, images, y) for name, images in candidates.items()}
    best = max(found, key=lambda name: found[name])
    _, high = wilson_interval(round(accuracy * len(y)), len(y))
    return (best, found[best]) if found[best] > max(high, accuracy + CLEARLY_BETTER) else None


def _accuracy(victim: Victim, x, y) -> float:
    logits = victim.compiled_logits(tf.convert_to_tensor(x, tf.float32)).numpy()
    return float((logits.argmax(axis=1) == y).mean())


def refuse_probabilities(diagnosis: ModelDiagnosis) -> None:
    """Raises `InputError`, with both remedies, if the outputs went through a softmax."""
    if diagnosis.outputs == "probabilities":
        raise InputError(
            f"{model_checks.PROBABILITIES} If that is not possible, EvaluationOptions(probabilities=True) "
            "attacks their logarithms, and the result says so."
        )


def logarithms(victim: Victim) -> Victim:
    """A victim whose logits are the logarithms of another victim's probabilities."""

    def digest():
        found = victim.digest()
        return None if found is None else f"logarithms of {found}"

    def logits(x):
        return tf.math.log(tf.maximum(victim.logits(x), SMALLEST))

    source = {} if victim.source is victim else {"source": logarithms(victim.source)}
    return victim.replace(logits=logits, head=None, scale=1.0, digest=digest, **source)


LOGARITHMS = Notice(
    "The model outputs probabilities, and their logarithms were attacked. Where a probability has been "
    "rounded to 0 or 1, the softmax passes no gradient, so an image may survive for that reason alone. "
    "Remove the softmax.",
    id="log-probabilities",
)
