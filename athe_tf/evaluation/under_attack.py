"""How a model behaves under attack: its confidence, and the angles of a hypersphere head."""

import numpy as np

from athe_tf import attacks
from athe_tf.evaluation.calibration import calibration, confidences
from athe_tf.evaluation.heads import ANGULAR_HEADS, EDGES, angle_counts, head_of
from athe_tf.evaluation.inputs import EvaluationInputs

# Images that are attacked to see how the model behaves, and the number of steps.
IMAGES = 500
STEPS = 10


def adversarial_logits(inputs: EvaluationInputs) -> np.ndarray:
    """The logits at the last iterates of PGD on the first images, whether the attack succeeds or not."""
    attack = attacks.get(f"pgd-{STEPS}", epsilon=inputs.epsilon, norm=inputs.norm)
    images, labels = inputs.images[:IMAGES], inputs.labels[:IMAGES]
    found = []
    for start in range(0, len(images), inputs.batch_size):
        part = slice(start, start + inputs.batch_size)
        ids = np.arange(len(images))[part]
        x_adv = attack(inputs.victim, images[part], labels[part], ids=ids, seed=inputs.seed)
        found.append(inputs.victim.compiled_logits(x_adv).numpy())
    return np.concatenate(found)


def describe_calibration(inputs: EvaluationInputs, attacked: np.ndarray | None) -> dict:
    """`"calibration"` of `evaluation.json`."""
    described = {"clean": calibration(inputs.clean.confidence, inputs.clean.correct)}
    if attacked is not None:
        correct = attacked.argmax(axis=1) == inputs.labels[: len(attacked)]
        described["adversarial"] = calibration(confidences(attacked), correct)
        described["adversarial"] |= {"attack": f"pgd-{STEPS}", "examples": len(attacked)}
    return described


def describe_angles(inputs: EvaluationInputs, attacked: np.ndarray | None) -> dict | None:
    """`"angles"` of `evaluation.json`; `None` unless the model has a hypersphere head."""
    head, scale = head_of(inputs.victim), inputs.victim.scale
    if head not in ANGULAR_HEADS:
        return None
    logits = inputs.clean.logits if attacked is None else inputs.clean.logits[: len(attacked)]
    labels = inputs.labels[: len(logits)]
    described: dict = {"edges": EDGES.tolist(), **angle_counts(logits, labels, head, scale)}
    if attacked is not None:
        described["adversarial"] = {**angle_counts(attacked, labels, head, scale), "attack": f"pgd-{STEPS}"}
    return described
