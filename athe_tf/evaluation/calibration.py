"""Calibration: whether a model is right as often as it is confident."""

import numpy as np

BINS = 15


def calibration(confidence, correct, bins: int = BINS) -> dict:
    """The expected calibration error, and the bins of a reliability diagram.

    Images are sorted by confidence into bins of equal width. In each bin, the mean confidence is compared
    with the accuracy; the error is the mean difference, weighted by the number of images (Guo et al., 2017).

    Example:

    >>> calibration([0.9, 0.9, 0.9, 0.9], [True, True, False, False])["ece"]
    0.4

    Args:
        confidence: The largest probability of each image.
        correct: Whether each image is classified correctly.
        bins: Number of bins; empty ones are omitted. Defaults to 15.
    """
    confidence, correct = np.asarray(confidence, np.float64), np.asarray(correct, bool)
    which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    filled = [which == index for index in np.unique(which)]
    rows = [
        {
            "confidence": float(confidence[members].mean()),
            "accuracy": float(correct[members].mean()),
            "count": int(members.sum()),
        }
        for members in filled
    ]
    error = sum(row["count"] * abs(row["confidence"] - row["accuracy"]) for row in rows) / len(confidence)
    return {"ece": round(float(error), 12), "bins": rows}


def confidences(logits) -> np.ndarray:
    """The largest probability of each row of logits."""
    logits = np.asarray(logits, np.float64)
    return 1.0 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
