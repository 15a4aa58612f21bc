"""What must be known about a model before its robustness is believed."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.model_checks import (
    PROBABILITIES,
    deterministic_logits,
    like_probabilities,
    saturated_share,
    scale_warnings,
)
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.clean import CleanPredictions
from athe_tf.results.intervals import wilson_interval
from athe_tf.utils.errors import InputError

# Images that are tested.
IMAGES = 200
# The smallest normal float32: its logarithm is finite.
SMALLEST = float(np.finfo(np.float32).tiny)
# Another range of inputs must be better by this much, and by more than chance explains.
CLEARLY_BETTER = 0.1


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
            warnings.append(
                "The model is randomized: its logits change from pass to pass (dropout or noise at "
                "inference?). An image may survive an attack by luck, so accuracies are too high. Make the "
                "model deterministic, or use autoattack-rand, which averages gradients."
            )
        if self.better_inputs is not None:
            how, accuracy = self.better_inputs
            warnings.append(
                "The model seems to expect other inputs than images in [0, 1]: its accuracy is "
                f"{self.accuracy:.1%} on the images as they are, and {accuracy:.1%} when they are {how}. Put "
                "the normalisation inside the model: athe_tf.models does it for you."
            )
        return warnings


def diagnose(victim: Victim, images, labels, clean: CleanPredictions) -> ModelDiagnosis:
    """Tests a model from outside: a few forward passes of at most 200 images.

    Args:
        victim: The model.
        images: Clean images; the first ones are tested.
        labels: Their labels.
        clean: What the model predicts for them.
    """
    x, y = images[:IMAGES], labels[:IMAGES]
    accuracy = float(clean.correct[:IMAGES].mean())
    known = labels[: len(clean.logits)]
    return ModelDiagnosis(
        outputs=_kind_of(clean.logits),
        saturated=saturated_share(clean.logits, known),
        scale_warnings=scale_warnings(clean.logits, known),
        deterministic=deterministic_logits(victim, x),
        accuracy=accuracy,
        better_inputs=find_better_inputs(victim, x, y, accuracy),
    )


def _kind_of(outputs: np.ndarray) -> str:
    if like_probabilities(outputs.astype(np.float64)):
        return "probabilities"
    return "cosines without a scale" if np.abs(outputs).max() <= 1 + 1e-5 else "logits"


def find_better_inputs(victim: Victim, x, y, accuracy: float) -> tuple[str, float] | None:
    """The usual normalisation of inputs under which a model is clearly better than with [0, 1], if any."""
    mean, std = x.mean(axis=(0, 1, 2)), np.maximum(x.std(axis=(0, 1, 2)), 1 / 255)
    candidates = {
        "standardised (mean 0, variance 1)": (x - mean) / std,
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
            f"{PROBABILITIES} If that is not possible, EvaluationOptions(probabilities=True) attacks their "
            "logarithms, and the result says so."
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


LOGARITHMS = (
    "The model outputs probabilities, and their logarithms were attacked. Where a probability has been "
    "rounded to 0 or 1, the softmax passes no gradient, so an image may survive for that reason alone. "
    "Remove the softmax."
)
