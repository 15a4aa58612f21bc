"""What a user calls data, as the arrays that attacks take."""

import numpy as np
import tensorflow as tf

from athe_tf.utils.errors import check
from athe_tf.utils.images_and_labels import checked_batch


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
