"""Measures beside robust accuracy: calibration, angles of a hypersphere head, transfer, recall@k."""

from typing import TYPE_CHECKING, Any

import numpy as np

from athe_tf import attacks
from athe_tf.attacks.transfer import transfer_matrix
from athe_tf.models.card import head_name
from athe_tf.models.victim import Victim
from athe_tf.results.file_format import AngleCounts, Angles, Calibration, Reliability, Transfer
from athe_tf.utils.errors import check, check_integer

if TYPE_CHECKING:
    from athe_tf.evaluation.attack_run import PlannedAttack
    from athe_tf.evaluation.inputs import EvaluationInputs

# Bins of a reliability diagram.
BINS = 15
#: Heads whose outputs are functions of angles.
ANGULAR_HEADS = ("he", "mhe")
# Three degrees per bin.
EDGES = np.linspace(0.0, 180.0, 61)
# Images that are attacked to see how the model behaves, and the number of steps.
IMAGES = 500
STEPS = 10


def calibration(confidence, correct, bins: int = BINS) -> Reliability:
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
    means = [(float(confidence[one].mean()), float(correct[one].mean()), int(one.sum())) for one in filled]
    rows: list[Any] = [dict(zip(("confidence", "accuracy", "count"), row, strict=True)) for row in means]
    error = sum(row["count"] * abs(row["confidence"] - row["accuracy"]) for row in rows) / len(confidence)
    return {"ece": round(float(error), 12), "bins": rows}


def confidences(logits) -> np.ndarray:
    """The largest probability of each row of logits."""
    logits = np.asarray(logits, np.float64)
    finite = np.isfinite(logits).all(axis=1)  # logits that are not finite express no confidence
    logits = np.where(finite[:, np.newaxis], logits, 0.0)
    return finite / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)


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


def angle_counts(logits, labels, head: str, scale: float) -> AngleCounts:
    """Histograms of the angle of each image to its own class, and to the nearest other class."""
    degrees = angles(logits, head, scale)
    labels = np.asarray(labels)
    own = np.take_along_axis(degrees, labels[:, np.newaxis], axis=1)[:, 0]
    others = np.where(np.arange(degrees.shape[1]) == labels[:, np.newaxis], np.inf, degrees).min(axis=1)
    true, wrong = (np.histogram(np.clip(each, EDGES[0], EDGES[-1]), EDGES)[0] for each in (own, others))
    return {"true": true.tolist(), "nearest_wrong": wrong.tolist()}


def adversarial_logits(inputs: "EvaluationInputs") -> np.ndarray:
    """The logits at the last iterates of PGD on the first images, whether the attack succeeds or not."""
    attack = attacks.get(f"pgd-{STEPS}", epsilon=inputs.epsilon, norm=inputs.norm)
    images, labels = inputs.images[:IMAGES], inputs.labels[:IMAGES]
    found = []
    for start in range(0, len(images), inputs.batch_size):
        part = slice(start, start + inputs.batch_size)
        ids = np.arange(len(images))[part]
        x_adv = attack(inputs.victim, images[part], labels[part], ids=ids, seed=inputs.seed)
        # Votes of a randomized model have no confidence.
        victim = inputs.victim if inputs.single is None else inputs.single
        found.append(victim.compiled_logits(x_adv).numpy())
    return np.concatenate(found)


def describe_calibration(inputs: "EvaluationInputs", attacked: np.ndarray | None) -> Calibration:
    """`"calibration"` of `evaluation.json`."""
    described: Calibration = {"clean": calibration(inputs.clean.confidence, inputs.clean.correct)}
    if attacked is not None:
        correct = attacked.argmax(axis=1) == inputs.labels[: len(attacked)]
        under_attack = calibration(confidences(attacked), correct)
        described["adversarial"] = {**under_attack, "attack": f"pgd-{STEPS}", "examples": len(attacked)}
    return described


def describe_angles(inputs: "EvaluationInputs", attacked: np.ndarray | None) -> Angles | None:
    """`"angles"` of `evaluation.json`; `None` unless the model has a hypersphere head."""
    head, scale = head_of(inputs.victim), inputs.victim.scale
    if head not in ANGULAR_HEADS:
        return None
    logits = inputs.clean.logits if attacked is None else inputs.clean.logits[: len(attacked)]
    labels = inputs.labels[: len(logits)]
    described: Angles = {"edges": EDGES.tolist(), **angle_counts(logits, labels, head, scale)}
    if attacked is not None:
        described["adversarial"] = {**angle_counts(attacked, labels, head, scale), "attack": f"pgd-{STEPS}"}
    return described


def measure_transfer(
    inputs: "EvaluationInputs", name: str, substitutes: dict[str, Victim], plan: list["PlannedAttack"]
) -> Transfer:
    """`"transfer"` of `evaluation.json`: a row per source and attack, a column per model and substitute."""
    models = {name: inputs.victim, **substitutes}
    data = inputs.images, inputs.labels
    matrices = [
        transfer_matrix(models, *data, planned.attack, seed=inputs.seed, batch_size=inputs.batch_size)
        for planned in plan
        if planned.attack is not None
    ]
    return {
        "sources": [f"{source}, {matrix.attack}" for matrix in matrices for source in matrix.names],
        "targets": list(models),
        "attack": " and ".join(matrix.attack for matrix in matrices),
        "accuracy": [row.tolist() for matrix in matrices for row in matrix.accuracies],
        "clean": matrices[0].clean.tolist(),
    }


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
