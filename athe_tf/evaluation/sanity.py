"""The sanity checks: what must hold if the robustness of a model is to be believed.

A model can look robust because attacks on it fail for a bad reason: gradients that vanish or mislead, logits
on an unfavourable scale, randomness. Each check is one function from a `SanityProbe` to a `Check`, and looks
for one such reason (Carlini et al., "On Evaluating Adversarial Robustness", 2019, collects most of them).

The probe attacks at most 200 images that are classified correctly, with about 250 forward and 150 backward
passes for each one that survives throughout: a small part of any evaluation that is worth checking.
"""

import dataclasses
import functools
import itertools
import math
import time

import numpy as np
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.engine.model_checks import SATURATED_MARGIN
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.evaluation.attack_test import try_attacks
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.models.gradient_sources import layers_without_gradient, taken_apart
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.utils.errors import InputError, NoGradients, NotApplicable

# Attacks that should be ordered may differ by this much and still count as equal: they are not exact.
SLACK = 0.01

# The share of the planted adversarial examples that attacks must find.
ENOUGH = 0.95
IMAGES, STEPS, MORE_STEPS, RESTARTS, QUERIES = 200, 10, 40, 3, 100
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
WITHOUT_GRADIENTS = "Not applicable: it needs gradients, and a file for another runtime has none."


@dataclasses.dataclass(frozen=True)
class Check:
    """The answer of one sanity check: a sentence and the numbers in it. `name` is what must hold."""

    status: str
    detail: str
    numbers: dict = dataclasses.field(default_factory=dict)
    name: str = ""


def _attack(name: str, **settings) -> functools.cached_property[AttackResult]:
    """An attribute of a probe: the result of an attack, which is run when it is first needed."""
    return functools.cached_property(lambda probe: probe.run(name, **settings))


class SanityProbe:
    """A model under a few cheap attacks, each run when it is first needed.

    `outcomes` and `verify` are what the attacks of the evaluation and independent code found; `wanted` are
    these attacks.
    """

    def __init__(self, inputs: EvaluationInputs, outcomes: list[AttackOutcome], verify=(), wanted=()):
        self.rows = np.flatnonzero(inputs.clean.correct)[:IMAGES]
        self.inputs = inputs
        self.outcomes = outcomes
        self.verify = list(verify)
        self.wanted = [
            one for one in wanted if (one.norm, one.epsilon) == (inputs.norm, inputs.epsilon) and one.in_ball
        ]
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


def _accuracy(result: AttackResult) -> float:
    return float((~result.success).mean())


def _in_first_round(result: AttackResult) -> np.ndarray:
    """For which images the first of several restarts succeeds."""
    return result.success & (result.rounds <= 1)


def _ordered(weak: tuple[str, np.ndarray], strong: tuple[str, np.ndarray]) -> Check:
    """The weaker attack must not succeed more often than the stronger one, beyond chance.

    Some images are lost to only one of the two attacks. If both were equally likely, the two counts would
    differ by at most twice the square root of their sum in 19 of 20 cases.
    """
    (weak_name, by_weak), (strong_name, by_strong) = weak, strong
    images = len(by_weak)
    weak_alone, strong_alone = int((by_weak & ~by_strong).sum()), int((by_strong & ~by_weak).sum())
    chance = 2 * math.sqrt(weak_alone + strong_alone)
    weaker, stronger = float((~by_weak).mean()), float((~by_strong).mean())
    return Check(
        PASSED if weak_alone - strong_alone <= max(SLACK * images, 1, chance) else FAILED,
        f"{weaker:.1%} of {images} images withstand {weak_name}, {stronger:.1%} {strong_name}.",
        {weak_name: weaker, strong_name: stronger, "images": images},
    )


def noise_is_weaker(probe: SanityProbe) -> Check:
    """Otherwise gradients do not point to adversarial examples."""
    return _ordered(("random noise", probe.noise.success), ("FGSM", probe.fgsm.success))


def one_step_is_weaker(probe: SanityProbe) -> Check:
    """Otherwise the loss surface misleads attacks that follow it."""
    return _ordered(("FGSM", probe.fgsm.success), (f"PGD-{STEPS}x{RESTARTS}", probe.pgd.success))


def more_steps_are_stronger(probe: SanityProbe) -> Check:
    """Otherwise an attack loses its way; if they succeed much more often, it had not converged."""
    few, many = _in_first_round(probe.pgd), probe.longer_pgd.success
    return _ordered((f"PGD-{STEPS}", few), (f"PGD-{MORE_STEPS}", many))


def restarts_are_stronger(probe: SanityProbe) -> Check:
    """A restart can only add adversarial examples; if it adds many, chance matters too much."""
    once, several = _in_first_round(probe.pgd), probe.pgd.success
    return _ordered((f"PGD-{STEPS}", once), (f"{RESTARTS} restarts of it", several))


def black_box_is_weaker(probe: SanityProbe) -> Check:
    """A black-box attack that finds what gradient attacks miss shows that gradients are masked."""
    by_gradients, survivors = (probe.pgd, probe.longer_pgd, probe.sweep), probe.survivors()
    robust = ~np.logical_or.reduce([result.success for result in by_gradients])
    robust = robust if survivors is None else robust & survivors
    only = float((probe.square.success & robust).mean())
    return Check(
        PASSED if only <= max(SLACK, 1.0 / len(probe.rows)) else FAILED,
        f"For {only:.1%} of {len(probe.rows)} images, Square finds an adversarial example with {QUERIES} "
        "queries and no gradient attack does.",
        {"square alone": only, "square": _accuracy(probe.square), "images": len(probe.rows)},
    )


def huge_epsilon_reaches_zero(probe: SanityProbe) -> Check:
    """If every image is allowed, every attack must succeed."""
    left = _accuracy(probe.huge)
    return Check(
        PASSED if left <= SLACK else FAILED,
        f"{left:.1%} of {len(probe.rows)} images withstand PGD on the margin although any image is allowed.",
        {"accuracy": left, "images": len(probe.rows)},
    )


def gradients_are_usable(probe: SanityProbe) -> Check:
    """A zero gradient gives no direction, and a gradient that is not finite is replaced by zero."""
    outcomes = [one for one in probe.outcomes if one.gradients]
    try:
        results = [probe.fgsm, probe.pgd]
    except NoGradients as error:
        if not probe.inputs.victim.differentiable:
            raise
        return Check(FAILED, str(error), {"zero": 1.0})
    faults = [*(r.gradient_faults for r in results), *(one.gradient_faults for one in outcomes)]
    images = max(one.get("attacked", 0) for one in faults)
    zero = max(one.get("zero", 0) / max(one.get("attacked", 0), 1) for one in faults)
    nonfinite = sum(int(r.nonfinite.sum()) for r in results) + sum(one.nonfinite for one in outcomes)
    gradients = sum(int(r.gradients.sum()) for r in results) + sum(one.gradients for one in outcomes)
    return Check(
        PASSED if zero <= SLACK and nonfinite == 0 else FAILED,
        f"{zero:.1%} of {images} images had a zero gradient; {nonfinite:,} of {gradients:,} gradients were "
        "not finite.",
        {"zero": zero, "nonfinite": nonfinite, "nonfinite share": nonfinite / max(gradients, 1)}
        | {"gradients": gradients},
    )


def outputs_are_logits(probe: SanityProbe) -> Check:
    """Cross-entropy of probabilities, or of cosines without a scale, is a weak objective."""
    logits, kind = probe.inputs.clean.logits, probe.inputs.diagnosis.outputs
    low, high = float(logits.min()), float(logits.max())
    return Check(
        PASSED if kind == "logits" else FAILED,
        f"The outputs lie between {low:.3g} and {high:.3g}, and look like {kind}.",
        {"lowest": low, "highest": high},
    )


def inputs_are_images(probe: SanityProbe) -> Check:
    """A model that expects normalized inputs would be measured on images it was not made for."""
    accuracy, better = probe.inputs.diagnosis.accuracy, probe.inputs.diagnosis.better_inputs
    if better is None:
        detail = "No usual normalization of the inputs gives a higher accuracy than images in [0, 1]."
        return Check(PASSED, detail, {"accuracy": accuracy})
    return Check(
        FAILED,
        f"The accuracy is {accuracy:.1%} on images in [0, 1], and {better[1]:.1%} when they are {better[0]}: "
        "put the normalization inside the model.",
        {"accuracy": accuracy, "accuracy otherwise": better[1]},
    )


def model_is_deterministic(probe: SanityProbe) -> Check:
    """Dropout or noise at inference lets images survive by luck."""
    if probe.inputs.diagnosis.deterministic:
        return Check(PASSED, "The same images give the same logits in every pass.")
    return Check(
        FAILED, "The same images give different logits in every pass: average gradients by gradient_passes."
    )


def images_are_independent(probe: SanityProbe) -> Check:
    """Batch normalization in training mode would make an image's logits depend on its batch."""
    if not probe.inputs.diagnosis.deterministic:
        raise NotApplicable("the model is randomized.")
    logits = probe.inputs.victim.compiled_logits
    batch = tf.convert_to_tensor(probe.inputs.images[probe.rows[:8]])
    together = logits(batch).numpy()
    alone = np.concatenate([logits(batch[i : i + 1]) for i in range(len(batch))])
    gap = float(np.abs(together - alone).max())
    return Check(
        PASSED if gap <= 1e-3 * max(1.0, float(np.abs(together).max())) else FAILED,
        f"Logits of an image alone and in a batch differ by at most {gap:.2g}.",
        {"difference": gap},
    )


def margins_are_not_saturated(probe: SanityProbe) -> Check:
    """In float32, cross-entropy is exactly zero from a margin of 17 on, and so is its gradient."""
    share, images = probe.inputs.diagnosis.saturated, len(probe.inputs.clean.logits)
    return Check(
        PASSED if share <= SLACK else FAILED,
        f"{share:.1%} of {images} images have a margin of {SATURATED_MARGIN:g} or more.",
        {"share": share, "images": images},
    )


def scale_does_not_matter(probe: SanityProbe) -> Check:
    """The attacks of the evaluation must not have missed what another scale of the logits finds.

    What three restarts at the model's own scale find as well is not due to the scale.
    """
    one, own = _accuracy(probe.at_scale_one), float((~_in_first_round(probe.pgd)).mean())
    swept, survivors = _accuracy(probe.sweep), probe.survivors()
    robust = ~probe.pgd.success if survivors is None else survivors & ~probe.pgd.success
    missed = float((probe.sweep.success & robust).mean())
    return Check(
        PASSED if missed <= max(SLACK, 1.0 / len(probe.rows)) else FAILED,
        f"Cross-entropy overestimates the accuracy of this model by {100 * (one - swept):.1f} points at "
        f"scale 1, and by {100 * (own - swept):.1f} at its own scale. For {missed:.1%} of {len(probe.rows)} "
        "images, only a sweep of scales finds an adversarial example.",
        {"ce at scale 1": one, "ce at the model's scale": own, "sweep": swept}
        | {"overestimate at scale 1": one - swept, "missed": missed},
    )


def larger_epsilon_is_stronger(probe: SanityProbe) -> Check:
    """The same attack in a larger ball must not leave a higher accuracy."""
    ran = [one for one in probe.outcomes if one.robust is not None and one.epsilon is not None]
    families: dict[str, list[AttackOutcome]] = {}
    for outcome in sorted(ran, key=lambda outcome: outcome.epsilon or 0.0):
        families.setdefault(outcome.name.partition(" @ ")[0], []).append(outcome)
    pairs = [pair for family in families.values() for pair in itertools.pairwise(family)]
    if not pairs:
        raise NotApplicable("the attacks were run at one epsilon only.")
    rises = {f"{a.name}, {b.name}": b.accuracy - a.accuracy for a, b in pairs}
    worst = max(rises.values())
    return Check(
        PASSED if worst <= SLACK else FAILED,
        f"From one epsilon to the next, the accuracy rises by at most {100 * max(worst, 0):.1f} points.",
        {"largest rise": worst},
    )


def attacks_are_strong_enough(probe: SanityProbe) -> Check:
    """The attacks of the evaluation must find what these cheap attacks find."""
    survivors = probe.survivors()
    if survivors is None:
        raise NotApplicable("no attack was run on all images within the threat model.")
    results = (probe.noise, probe.fgsm, probe.pgd, probe.longer_pgd, probe.sweep, probe.square)
    found = np.logical_or.reduce([result.success for result in results])
    missed = float((found & survivors).mean())
    advice = "" if missed <= 2 * SLACK else " Use more restarts, or the protocol 'full'."
    return Check(
        FAILED if advice else PASSED,
        f"For {missed:.1%} of {len(probe.rows)} images, only the attacks of these checks find an adversarial "
        f"example: the worst case is too high by about that much.{advice}",
        {"missed": missed, "images": len(probe.rows)},
    )


def layers_have_gradients(probe: SanityProbe) -> Check:
    """Rounding, argmax and the like pass no gradient, so that attacks do not see what is before them."""
    rows, victim = probe.rows[:8], probe.inputs.victim.source
    with taken_apart(victim):
        names = layers_without_gradient(victim, probe.inputs.images[rows], probe.inputs.labels[rows])
    probe.queries, probe.gradients = probe.queries + len(rows), probe.gradients + len(rows)
    if not names:
        return Check(PASSED, "Gradients pass through every layer.")
    flag = f"--straight_through={','.join(names)}, in Python EvaluationOptions(straight_through={names})"
    text = (
        f"No gradient passes through {', '.join(map(repr, names))}. Let attacks pass backward through them: "
    )
    return Check(FAILED, f"{text}{flag}.", {"layers": len(names)})


def attacks_find_what_exists(probe: SanityProbe) -> Check:
    """Attacks that miss adversarial examples which exist for certain miss others, too."""
    test = try_attacks(probe.inputs, probe.wanted, probe.rows, probe.queries + probe.gradients)
    probe.queries, probe.gradients = probe.queries + test.passes[0], probe.gradients + test.passes[1]
    images, found, chance = len(test.found), float(test.found.mean()), float(test.by_chance.mean())
    if chance > 0.5 * found and found >= ENOUGH:
        raise NotApplicable(f"random search finds {chance:.0%} of the planted adversarial examples, too.")
    left_out = f" Left out: {', '.join(test.left_out)}." if test.left_out else ""
    passes = sum(test.passes) / images
    return Check(
        PASSED if found >= ENOUGH else FAILED,
        f"{images} images were given a read-out for which an adversarial example exists for certain. The "
        f"attacks of this evaluation find {found:.0%}, random search with as many queries {chance:.0%}; "
        f"{passes:.0f} passes per image.{left_out}",
        {"found": found, "random search": chance, "images": images, "passes per image": passes},
    )


def independent_code_agrees(probe: SanityProbe) -> Check:
    """An attack by independent code must not be stronger than the same attack of ours."""
    ran = [entry for entry in probe.verify if "difference" in entry]
    if not ran:
        raise NotApplicable("no other package was asked to repeat the attacks (`verify_with`).")
    largest = max(entry["difference"] for entry in ran)
    return Check(
        PASSED if largest <= 2 * SLACK else FAILED,
        f"In {len(ran)} comparisons, our accuracy was higher by at most {100 * max(largest, 0):.1f} points.",
        {"largest difference": largest},
    )


CHECKS = {
    "outputs are logits": outputs_are_logits,
    "inputs are images in [0, 1]": inputs_are_images,
    "the model is deterministic": model_is_deterministic,
    "images in a batch are independent": images_are_independent,
    "float32 margins are not saturated": margins_are_not_saturated,
    "gradients are nonzero and finite": gradients_are_usable,
    "every layer passes gradients": layers_have_gradients,
    "random noise is weaker than FGSM": noise_is_weaker,
    "FGSM is weaker than PGD": one_step_is_weaker,
    "more steps do not help the defender": more_steps_are_stronger,
    "more restarts do not help the defender": restarts_are_stronger,
    "a larger epsilon does not help the defender": larger_epsilon_is_stronger,
    "black box does not beat white box": black_box_is_weaker,
    "a huge epsilon reaches zero accuracy": huge_epsilon_reaches_zero,
    "the logit scale hides nothing": scale_does_not_matter,
    "the attacks are strong enough": attacks_are_strong_enough,
    "the attacks find what exists for certain": attacks_find_what_exists,
    "independent code agrees": independent_code_agrees,
}


def run_checks(probe: SanityProbe, progress=None) -> tuple[list[Check], dict]:
    """Runs all checks, and returns them with their cost; tells `progress` the numbers (done, in total)."""
    began = time.perf_counter()
    checks = []
    for done, (name, function) in enumerate(CHECKS.items()):
        if progress is not None:
            progress(done, len(CHECKS))
        checks.append(dataclasses.replace(_run_check(function, probe), name=name))
    cost = {"images": len(probe.rows), "queries": probe.queries, "gradients": probe.gradients}
    return checks, cost | {"seconds": round(time.perf_counter() - began, 2)}


def _run_check(function, probe: SanityProbe) -> Check:
    if not len(probe.rows):
        return Check(NOT_RUN, "No image is classified correctly, so there is nothing to attack.")
    try:
        return function(probe)
    except InputError as error:
        if isinstance(error, NoGradients) and not probe.inputs.victim.differentiable:
            return Check(NOT_RUN, WITHOUT_GRADIENTS)
        reason = str(error)
        return Check(NOT_RUN, reason[:1].upper() + reason[1:])
