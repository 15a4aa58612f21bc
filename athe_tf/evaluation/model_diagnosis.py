"""What has to be known of a model before its robustness is believed: found out, and named in the report."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.logit_checks import PROBABILITIES, like_probabilities, scale_warnings
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.engine.victim_checks import steady_logits
from athe_tf.evaluation.intervals import wilson_interval
from athe_tf.utils.errors import InputError

# Images that are looked at.
LOOKED_AT = 200
# The smallest normal float32: its logarithm is finite.
SMALLEST = float(np.finfo(np.float32).tiny)
# Another range of inputs has to be better by this much, beyond chance, to be believed.
CLEARLY_BETTER = 0.1


@dataclasses.dataclass
class Traits:
    """What was found out about a model.

    Attributes:
        steady: Whether it says the same each time it is asked.
        accuracy: Its accuracy on the images that were looked at.
        better_inputs: How it wants its images, where not in [0, 1]; and its accuracy then.
        warnings: All of it in sentences for the report; empty when nothing is odd.
    """

    steady: bool
    accuracy: float
    better_inputs: tuple[str, float] | None
    warnings: list[str]


def find_traits(target: Victim, images, labels, logits) -> Traits:
    """Looks at a model from outside: a few forward passes of at most 200 images.

    Args:
        target: The model.
        images: Clean images; the first are looked at.
        labels: Their labels.
        logits: The logits of the first of them.
    """
    x, y = images[:LOOKED_AT], labels[:LOOKED_AT]
    steady = steady_logits(target, x)
    accuracy = _accuracy(target, x, y)
    better = better_inputs(target, x, y, accuracy)
    warnings = scale_warnings(logits, labels[: len(logits)])
    if not steady:
        warnings.append(
            "The model is randomised: its logits change from pass to pass (dropout or noise at inference?). "
            "An image may survive an attack by luck, and accuracies are too high. Make it deterministic, or "
            "use autoattack-rand, which averages gradients."
        )
    if better is not None:
        warnings.append(
            "The model seems to expect other inputs than images in [0, 1]: "
            f"{accuracy:.1%} of {len(x)} images are classified correctly as they are, {better[1]:.1%} when "
            f"they are {better[0]}. Put the normalisation inside the model: athe_tf.models does it for you."
        )
    return Traits(steady, accuracy, better, warnings)


def better_inputs(target: Victim, x, y, accuracy: float) -> tuple[str, float] | None:
    """The usual way of normalising inputs under which a model is clearly better than with [0, 1]."""
    mean, std = x.mean(axis=(0, 1, 2)), np.maximum(x.std(axis=(0, 1, 2)), 1 / 255)
    candidates = {
        "standardised (mean 0, variance 1)": (x - mean) / std,
        "stretched to [-1, 1]": 2 * x - 1,
        "stretched to [0, 255]": 255 * x,
    }
    found = {name: _accuracy(target, images, y) for name, images in candidates.items()}
    best = max(found, key=lambda name: found[name])
    _, high = wilson_interval(round(accuracy * len(y)), len(y))
    return (best, found[best]) if found[best] > max(high, accuracy + CLEARLY_BETTER) else None


def _accuracy(target: Victim, x, y) -> float:
    logits = target.compiled_logits(tf.convert_to_tensor(x, tf.float32)).numpy()
    return float((logits.argmax(axis=1) == y).mean())


def refuse_probabilities(outputs) -> None:
    """Raises `InputError` for outputs that went through a softmax, with both remedies."""
    if like_probabilities(np.asarray(outputs, np.float64)):
        raise InputError(
            f"{PROBABILITIES} Where that cannot be done, --probabilities (`probabilities=True`) attacks "
            "their logarithms, and the report says so."
        )


def logarithms(target: Victim) -> Victim:
    """A victim whose logits are the logarithms of another's probabilities."""
    return Victim(
        lambda x: tf.math.log(tf.maximum(target.logits(x), SMALLEST)),
        features=target.features if target.has_features else None,
        num_classes=target.num_classes,
        name=target.name,
    )


LOGARITHMS = (
    "The model outputs probabilities, and their logarithms were attacked. Where a probability has been "
    "rounded to 0 or 1, the softmax passes no gradient: an image may survive for that reason alone. Remove "
    "the softmax."
)
