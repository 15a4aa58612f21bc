"""The first pass of an evaluation: what a model makes of the images as they are."""

import dataclasses

import numpy as np

from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.attacks.engine.results import misclassified
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.calibration import confidences
from athe_tf.utils.errors import InputError, check

# Images whose logits are kept, for warnings and for angles.
KEPT = 1000


@dataclasses.dataclass
class CleanPass:
    """What a model makes of clean images.

    Attributes:
        correct: Whether each image is classified correctly.
        confidence: The largest probability of each image.
        logits: Those of the first images.
    """

    correct: np.ndarray
    confidence: np.ndarray
    logits: np.ndarray


def look_at_clean_images(target: Victim, images, labels, batch_size: int) -> CleanPass:
    """One pass over all images; memory does not grow with their number but for three numbers an image."""
    correct, confidence, kept = [], [], []
    for start, logits in _logits(target, images, batch_size):
        values = np.asarray(logits)
        _check_shape(target, values, len(images[start : start + batch_size]), labels)
        correct.append(~misclassified(logits, labels[start : start + batch_size]).numpy())
        confidence.append(confidences(values))
        if start < KEPT:
            kept.append(values)
    return CleanPass(np.concatenate(correct), np.concatenate(confidence), np.concatenate(kept)[:KEPT])


def _logits(target: Victim, images, batch_size: int):
    try:
        yield from clean_logits(target, images, batch_size)
    except InputError:
        raise
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        raise InputError(
            f"The model '{target.name}' cannot be called with images of shape {images.shape[1:]}: "
            f"{lines[0] if lines else type(error).__name__} Give the data set that it was trained on, or "
            "--image_size."
        ) from error


def _check_shape(target: Victim, logits: np.ndarray, count: int, labels) -> None:
    check(
        logits.ndim == 2 and len(logits) == count,
        f"A model must give one row of logits an image. Expected: shape=({count}, classes). "
        f"Received: shape={logits.shape} from '{target.name}'.",
    )
    if target.num_classes is None:  # a callable tells only now
        target.num_classes = int(logits.shape[-1])
    largest = int(np.max(labels))
    check(
        largest < target.num_classes,
        f"The model '{target.name}' has {target.num_classes} classes. Received: a label {largest}. "
        "Give the data set that it was trained on.",
    )
