"""Adversarial examples that an attack found: a few to look at, and whether they survive 8 bits."""

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.threat import LEVELS, nearest_level

# Examples that are kept per attack, and in total.
MAX_EXAMPLES = 10

Examples = dict[str, np.ndarray]


def examples_of(result: AttackResult, rows: np.ndarray, inputs: EvaluationInputs, label: str) -> Examples:
    """The first adversarial examples that an attack found on these rows of the images.

    | array | content |
    |---|---|
    | `clean`, `adversarial` | float32 `[k, H, W, C]` in [0, 1] |
    | `label`, `clean_prediction`, `adversarial_prediction` | classes |
    | `attack` | the attack's label |
    | `norm` | length of the perturbation in the attack's norm |
    | `index` | position in the data set |
    """
    found = result.found[:MAX_EXAMPLES]
    rows, norms = rows[found], result.norm[found]
    clean, adversarial = inputs.images[rows], result.x_adv[found]
    before = after = np.zeros(0)
    if len(rows):
        before, after = (
            inputs.victim.compiled_logits(x).numpy().argmax(axis=1) for x in (clean, adversarial)
        )
    return {
        "clean": np.asarray(clean, np.float32),
        "adversarial": adversarial,
        "label": np.asarray(inputs.labels[rows], np.int32),
        "clean_prediction": before.astype(np.int32),
        "adversarial_prediction": after.astype(np.int32),
        "attack": np.array([label] * len(rows), dtype=np.str_),
        "norm": np.asarray(norms, np.float32),
        "index": rows.astype(np.int64),
    }


def choose_examples(collected: list[Examples], most: int = MAX_EXAMPLES) -> Examples | None:
    """At most `most` examples, of all attacks in turn; images repeat only if there are no others."""
    places = [(which, place) for which, e in enumerate(collected) for place in range(len(e["index"]))]
    chosen: list[tuple[int, int]] = []
    seen: set[int] = set()
    while places and len(chosen) < most:
        shown = [which for which, _ in chosen]
        # The attack that was shown least, and new images first.
        best = min(places, key=lambda p: (int(collected[p[0]]["index"][p[1]]) in seen, shown.count(p[0]), p))
        places.remove(best)
        chosen.append(best)
        seen.add(int(collected[best[0]]["index"][best[1]]))
    if not chosen:
        return None
    return {
        name: np.stack([collected[which][name][place] for which, place in sorted(chosen)])
        for name in collected[0]
    }


def with_nan_logits(result: AttackResult, inputs: EvaluationInputs) -> np.ndarray:
    """Whether each image has an adversarial example whose logits are not finite: `[N]` flags.

    Costs a forward pass only where a gradient was zero or not finite, which such logits imply.
    """
    flags = np.zeros(len(result.success), bool)
    found = result.found[(result.nonfinite + result.zero_gradients)[result.found] > 0]
    for start, logits in clean_logits(inputs.victim, result.x_adv[found], inputs.batch_size):
        flags[found[start : start + inputs.batch_size]] = ~np.isfinite(logits).all(axis=1)
    return flags


def still_adversarial(
    result: AttackResult, rows: np.ndarray, attack: Attack, inputs: EvaluationInputs
) -> np.ndarray:
    """Whether each image has an adversarial example that is still one as PNG stores it: `[N]` flags.

    Costs one forward pass per adversarial example. `rows` are the images of the result among the inputs.
    """
    flags = np.zeros(len(result.success), bool)
    found = result.found
    for start in range(0, len(found), inputs.batch_size):
        part = found[start : start + inputs.batch_size]
        clean, labels = inputs.images[rows[part]], inputs.labels[rows[part]]
        x, x_adv = tf.constant(clean), tf.constant(result.x_adv[part])
        # A round trip through a PNG file; inside the ball if the attack has one.
        stored = attack.threat.eight_bit(x, x_adv) if attack.in_ball else nearest_level(x_adv) / LEVELS
        flags[part] = attack.succeeded(inputs.victim.compiled_logits(stored), labels).numpy()
    return flags
