"""The head of a model, and the angles between its features and its class weights."""

import numpy as np

from athe_tf.attacks.engine.victim import Victim
from athe_tf.models.card import head_name

#: Heads whose outputs are functions of angles.
ANGULAR_HEADS = ("he", "mhe")
# Three degrees per bin.
EDGES = np.linspace(0.0, 180.0, 61)


def head_of(victim: Victim) -> str:
    """`"he"`, `"mhe"`, `"fn"`, `"wn"`, `"linear"`, `"ensemble"` or `"unknown"`."""
    stated = victim.facts.get("head")
    return stated if stated is not None else head_name(victim.head)


def angles(logits, head: str, scale: float) -> np.ndarray:
    """Angles in degrees between the features of images and all classes, from the outputs of a head.

    Example:

    >>> angles([[15.0, 0.0, -15.0]], "he", 15.0).tolist()
    [[0.0, 90.0, 180.0]]

    Args:
        logits: `[N, L]`.
        head: `"he"`, whose outputs are `scale * cos(theta)`, or `"mhe"`, whose outputs are `-scale * theta`.
        scale: The head's scale.
    """
    values = np.asarray(logits, np.float64) / scale
    radians = -values if head == "mhe" else np.arccos(np.clip(values, -1.0, 1.0))
    return np.degrees(radians)


def angle_counts(logits, labels, head: str, scale: float) -> dict[str, list[int]]:
    """Histograms of the angle of each image to its own class, and to the nearest other class."""
    degrees = angles(logits, head, scale)
    labels = np.asarray(labels)
    own = np.take_along_axis(degrees, labels[:, np.newaxis], axis=1)[:, 0]
    others = np.where(np.arange(degrees.shape[1]) == labels[:, np.newaxis], np.inf, degrees).min(axis=1)
    return {
        name: np.histogram(np.clip(values, EDGES[0], EDGES[-1]), EDGES)[0].tolist()
        for name, values in (("true", own), ("nearest_wrong", others))
    }
