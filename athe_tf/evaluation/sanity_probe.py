"""A model under a few cheap attacks, for the sanity checks."""

import functools

import numpy as np

from athe_tf import attacks
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.results.result import AttackOutcome

IMAGES = 200
STEPS = 10
MORE_STEPS = 40
RESTARTS = 3
QUERIES = 100


def _attack(name: str, **settings) -> functools.cached_property[AttackResult]:
    """An attribute of a probe: the result of an attack, which is run when it is first needed."""
    return functools.cached_property(lambda probe: probe.run(name, **settings))


class SanityProbe:
    """A model under a few cheap attacks, each run when it is first needed.

    Args:
        inputs: The model, its images and the threat model.
        outcomes: What the attacks of the evaluation found.
        verify: What independent code found.
    """

    def __init__(self, inputs: EvaluationInputs, outcomes: list[AttackOutcome], verify=()):
        self.rows = np.flatnonzero(inputs.clean.correct)[:IMAGES]
        self.inputs = inputs
        self.outcomes = outcomes
        self.verify = list(verify)
        self.queries = self.gradients = 0

    def run(self, name: str, **settings) -> AttackResult:
        """Runs an attack on the images of the probe, by default in the threat model of the evaluation."""
        threat = {"epsilon": self.inputs.epsilon, "norm": self.inputs.norm}
        result = self.inputs.run(attacks.get(name, **{**threat, **settings}), self.rows)
        self.queries += int(result.queries.sum())
        self.gradients += int(result.gradients.sum())
        return result

    def survivors(self) -> np.ndarray | None:
        """Which images survive all attacks of the evaluation; `None` if none of them covers all images."""
        counted = [one.robust for one in self.outcomes if one.in_worst_case and one.robust is not None]
        flags = [robust[self.rows] for robust in counted if len(robust) > self.rows.max(initial=0)]
        return np.logical_and.reduce(flags) if flags else None

    # A random point of the ball, without any gradient.
    noise = _attack("pgd", steps=0)
    fgsm = _attack("fgsm")
    pgd = _attack("pgd", steps=STEPS, restarts=RESTARTS)
    # On the cross-entropy of unscaled logits.
    at_scale_one = _attack("pgd", steps=STEPS, logit_scale=1.0)
    # At several scales and on the margin: the worst case per image.
    sweep = _attack("pgd-scale-sweep", steps=STEPS)
    # A black-box attack.
    square = _attack("square", n_queries=QUERIES)
    # Any image is allowed: the linf ball of radius one contains the whole box.
    huge = _attack("cw-linf", epsilon=1.0, norm="linf", steps=2 * STEPS, restarts=RESTARTS)

    @functools.cached_property
    def longer_pgd(self) -> AttackResult:
        """More, and shorter, steps."""
        return self.run("pgd", steps=MORE_STEPS, step_size=2.5 * self.inputs.epsilon / MORE_STEPS)
