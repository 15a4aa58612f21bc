"""`recall_at_k`: how well embeddings find images of the same class."""

import numpy as np

from athe_tf.utils.errors import check, check_integer


def recall_at_k(embeddings, labels, k: int = 1, batch_size: int = 1024) -> float:
    """The share of images that have an image of their class among their `k` nearest others, by cosine.

    Example:

    >>> recall_at_k([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1])     # the last one is alone in its class
    0.6666666666666666

    Args:
        embeddings: `[N, D]`, as `athe_tf.models.embedding_model(model).predict(images)` gives them.
        labels: `[N]`.
        k: Number of neighbors. Defaults to 1.
        batch_size: Images that are compared with all others at once. Defaults to 1024.
    """
    vectors, labels = np.asarray(embeddings, np.float64), np.asarray(labels)
    check_integer("k", k, 1)
    check(
        vectors.ndim == 2 and labels.shape == (len(vectors),) and len(vectors) > k,
        f"Expected one embedding and one label for each of more than k={k} images. Received: embeddings of "
        f"shape {vectors.shape} and labels of shape {labels.shape}.",
    )
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found = 0
    for start in range(0, len(vectors), batch_size):
        rows = np.arange(start, min(start + batch_size, len(vectors)))
        cosines = vectors[rows] @ vectors.T
        cosines[np.arange(len(rows)), rows] = -np.inf  # not the image itself
        nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        found += int((labels[nearest] == labels[rows, np.newaxis]).any(axis=1).sum())
    return found / len(vectors)
