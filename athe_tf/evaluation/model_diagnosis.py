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
from athe_tf.utils.errors import InputError, cause, check
from athe_tf.utils.images_and_labels import check_classes

# Images that are tested, and those whose logits are kept, for warnings and for angles.
IMAGES, MAX_EXAMPLES = 200, 1000
# The smallest normal float32: its logarithm is finite.
SMALLEST = float(np.finfo(np.float32).tiny)
# Another range of inputs must be better by this much, and by more than chance explains.
CLEARLY_BETTER = 0.1


@dataclasses.dataclass(frozen=True)
class CleanPredictions:
    """What a model predicts for clean images.

    Attributes:
        correct: Whether each image is classified correctly.
        confidence: The largest probability of each image.
        logits: Logits of the first images.
    """

    correct: np.ndarray
    confidence: np.ndarray
    logits: np.ndarray


def predict_clean_images(victim: Victim, images, labels, batch_size: int) -> CleanPredictions:
    """Makes one pass over all images, and keeps two values per image and the logits of the first ones."""
    correct, confidence, kept = [], [], []
    for start, logits in _logits(victim, images, batch_size):
        values = np.asarray(logits)
        _check_shape(victim, values, len(images[start : start + batch_size]), labels)
        correct.append(~misclassified(logits, labels[start : start + batch_size]).numpy())
        confidence.append(confidences(values))
        if start < MAX_EXAMPLES:
            kept.append(values)
    return CleanPredictions(
        np.concatenate(correct), np.concatenate(confidence), np.concatenate(kept)[:MAX_EXAMPLES]
    )


def _logits(victim: Victim, images, batch_size: int):
    try:
        yield from clean_logits(victim, images, batch_size)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The model '{victim.name}' cannot be called with images of shape {images.shape[1:]}: "
            f"{cause(error)}. Use the data set that it was trained on, with images of the same size."
        ) from error


def _check_shape(victim: Victim, logits: np.ndarray, count: int, labels) -> None:
    check(
        logits.ndim == 2 and len(logits) == count,
        f"A model must return one row of logits per image. Expected: shape=({count}, classes). "
        f"Received: shape={logits.shape} from '{victim.name}'.",
    )
    if victim.num_classes is None:  # the first batch of a callable shows it
        victim.num_classes = int(logits.shape[-1])
    remedy = f"Use the data set that '{victim.name}' was trained on."
    check_classes(np.asarray(labels), victim.num_classes, remedy=remedy)


@dataclasses.dataclass(frozen=True)
class ModelDiagnosis:
    """What was found out about a model.

    Attributes:
        outputs: What the outputs look like: `"logits"`, `"probabilities"` or `"cosines without a scale"`.
        saturated: The share of images whose margin is so large that cross-entropy rounds to zero.
        scale_warnings: What the logits say against attacks on cross-entropy, in sentences.
        deterministic: Whether the same images give the same logits in every pass.
        accuracy: The accuracy on the images that were tested.
        better_inputs: How the model seems to expect its images if not in [0, 1], and its accuracy then.
    """

    outputs: str
    saturated: float
    scale_warnings: list[str]
    deterministic: bool
    accuracy: float
    better_inputs: tuple[str, float] | None

    @property
    def warnings(self) -> list[str]:
        """Everything unusual, in sentences."""
        warnings = list(self.scale_warnings)
        if not self.deterministic:
            text = (
                "The model is randomized: its logits change from pass to pass (dropout or noise at "
                "inference?). An image may survive an attack by luck, so accuracies are too high. Make the "
                "model deterministic, or use autoattack-rand, which averages gradients."
            )
            warnings.append(Notice(text, id="randomized-model"))
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
    if model_checks.like_probabilities(outputs.astype(np.float64)):
        return "probabilities"
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
        better_inputs=find_better_inputs(victim, x, y, accuracy),
    )


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

    return Victim(
        lambda x: tf.math.log(tf.maximum(victim.logits(x), SMALLEST)),
        features=victim.features if victim.has_features else None,
        num_classes=victim.num_classes,
        name=victim.name,
        differentiable=victim.differentiable,
        digest=digest,
    )


LOGARITHMS = Notice(
    "The model outputs probabilities, and their logarithms were attacked. Where a probability has been "
    "rounded to 0 or 1, the softmax passes no gradient, so an image may survive for that reason alone. "
    "Remove the softmax.",
    id="log-probabilities",
)
