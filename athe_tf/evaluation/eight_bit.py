"""Adversarial examples as 8-bit images: which of them still fool the model."""

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.threat import LEVELS, nearest_level


def still_adversarial(
    result: AttackResult, rows: np.ndarray, attack: Attack, inputs: EvaluationInputs
) -> np.ndarray:
    """Whether each image has an adversarial example that is still one as PNG stores it: `[N]` flags.

    Costs one forward pass per adversarial example.

    Args:
        result: What the attack found.
        rows: The images of the result among those of the evaluation.
        attack: The attack.
        inputs: The model and the images.
    """
    flags = np.zeros(len(result.success), bool)
    found = result.found
    for start in range(0, len(found), inputs.batch_size):
        part = found[start : start + inputs.batch_size]
        clean, labels = inputs.images[rows[part]], inputs.labels[rows[part]]
        stored = _stored(attack, tf.constant(clean), tf.constant(result.x_adv[part]))
        flags[part] = attack.succeeded(inputs.victim.compiled_logits(stored), labels).numpy()
    return flags


def _stored(attack: Attack, x, x_adv):
    """Adversarial images after a round trip through a PNG file; inside the ball if the attack has one."""
    return attack.threat.eight_bit(x, x_adv) if attack.in_ball else nearest_level(x_adv) / LEVELS
