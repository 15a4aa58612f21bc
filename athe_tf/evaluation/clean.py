"""The images of an evaluation, and its first pass: what a model predicts for them."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.attacks.engine.results import misclassified
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.measures import confidences
from athe_tf.utils.errors import InputError, check, first_line
from athe_tf.utils.images_and_labels import check_classes, checked_batch

# Images whose logits are kept, for warnings and for angles.
KEPT = 1000


def read_images(data, max_examples: int | None, num_classes: int | None):
    """Images `[N, H, W, C]` as float32 in [0, 1], and labels `[N]` as int32.

    Args:
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        max_examples: Use only the first images, at most this many.
        num_classes: Labels must be smaller than this, if it is known.
    """
    images, labels = _arrays(data, max_examples)
    return checked_batch(images, labels, num_classes)


def _arrays(data, max_examples):
    if hasattr(data, "arrays"):
        check(len(data) > 0, "There are no images: the data set is empty.")
        return data.arrays(max_examples)
    if isinstance(data, tf.data.Dataset):
        return _collect(data, max_examples)
    check(
        isinstance(data, (tuple, list)) and len(data) == 2,
        f"Expected (images, labels) or a tf.data.Dataset. Received: {type(data).__name__}.",
    )
    images, labels = (np.asarray(part)[:max_examples] for part in data)
    return images, labels


def _collect(batches, max_examples):
    images, labels, count = [], [], 0
    for x, y in batches:
        images.append(x.numpy())
        labels.append(y.numpy())
        count += len(y)
        if max_examples is not None and count >= max_examples:
            break
    check(count > 0, "There are no images: the data set is empty.")
    return np.concatenate(images)[:max_examples], np.concatenate(labels)[:max_examples]


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
        if start < KEPT:
            kept.append(values)
    return CleanPredictions(np.concatenate(correct), np.concatenate(confidence), np.concatenate(kept)[:KEPT])


def _logits(victim: Victim, images, batch_size: int):
    try:
        yield from clean_logits(victim, images, batch_size)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The model '{victim.name}' cannot be called with images of shape {images.shape[1:]}: "
            f"{first_line(error)}. Use the data set that it was trained on, with images of the same size."
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
