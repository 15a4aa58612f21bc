"""How a model behaves when it is attacked: its confidence, and the angles of a hypersphere head."""

import numpy as np

from athe_tf import attacks
from athe_tf.evaluation.calibration import calibration, confidences
from athe_tf.evaluation.heads import ANGULAR_HEADS, EDGES, angle_counts, head_of
from athe_tf.evaluation.inputs import Case

# Images that are attacked to see how the model behaves, and with how many steps.
IMAGES = 500
STEPS = 10


def adversarial_logits(case: Case) -> np.ndarray:
    """The logits of the last iterates of PGD, for the first images, whether they fall or not."""
    attack = attacks.get(f"pgd-{STEPS}", epsilon=case.epsilon, norm=case.norm)
    images, labels = case.images[:IMAGES], case.labels[:IMAGES]
    found = []
    for start in range(0, len(images), case.batch_size):
        part = slice(start, start + case.batch_size)
        names = np.arange(len(images))[part]
        x_adv = attack(case.target, images[part], labels[part], ids=names, seed=case.seed)
        found.append(case.target.compiled_logits(x_adv).numpy())
    return np.concatenate(found)


def describe_calibration(case: Case, attacked: np.ndarray | None) -> dict:
    """`"calibration"` of `evaluation.json`."""
    described = {"clean": calibration(case.clean.confidence, case.clean.correct)}
    if attacked is not None:
        right = attacked.argmax(axis=1) == case.labels[: len(attacked)]
        described["adversarial"] = calibration(confidences(attacked), right)
        described["adversarial"] |= {"attack": f"pgd-{STEPS}", "examples": len(attacked)}
    return described


def describe_angles(case: Case, attacked: np.ndarray | None) -> dict | None:
    """`"angles"` of `evaluation.json`; `None` for heads that know no angles."""
    head, scale = head_of(case.target), case.target.scale
    if head not in ANGULAR_HEADS:
        return None
    logits = case.clean.logits if attacked is None else case.clean.logits[: len(attacked)]
    labels = case.labels[: len(logits)]
    described: dict = {"edges": EDGES.tolist(), **angle_counts(logits, labels, head, scale)}
    if attacked is not None:
        described["adversarial"] = {
            **angle_counts(attacked, labels, head, scale),
            "attack": f"pgd-{STEPS}",
        }
    return described
