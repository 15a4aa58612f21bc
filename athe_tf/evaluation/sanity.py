"""The sanity sheet: what must hold if the robustness of a model is to be believed.

A model can look robust because attacks on it fail for a bad reason: gradients that vanish or lie, logits of
an unlucky scale, chance. Each check here is one function from a `Probe` to a `Check`, and looks for one such
reason (Carlini et al., "On Evaluating Adversarial Robustness", 2019, collects most of them).

The probe attacks at most 200 images that are classified correctly, about 250 forward and 150 backward passes
for each that stands throughout: a small part of any evaluation that is worth checking.
"""

import dataclasses
import functools
import itertools
import math
import time

import numpy as np
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.logit_checks import SATURATED_MARGIN, like_probabilities
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.engine.victim_checks import zero_gradients
from athe_tf.evaluation.inputs import Case
from athe_tf.evaluation.result import AttackReport
from athe_tf.utils.errors import InputError, NotApplicable

IMAGES = 200
STEPS = 10
MORE_STEPS = 40
RESTARTS = 3
QUERIES = 100
# Attacks that should be ordered may disagree by this much and still count as equal: they are not exact.
SLACK = 0.01

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of the sheet.

    Attributes:
        name: What must hold.
        status: `"passed"`, `"failed"` or `"not run"`.
        detail: A sentence.
        numbers: What the sentence is made of.
    """

    name: str
    status: str
    detail: str
    numbers: dict = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict:
        """Its entry in `evaluation.json`."""
        return dataclasses.asdict(self)


class Probe:
    """A model under a few cheap attacks, each run when it is first asked for.

    Args:
        case: The model, its images and the threat model.
        lines: What the attacks of the report found.
        verify: What independent code found.
    """

    def __init__(self, case: Case, lines: list[AttackReport], verify=()):
        self.rows = np.flatnonzero(case.clean.correct)[:IMAGES]
        self.case = case
        self.target, self.traits = case.target, case.traits
        self.images, self.labels = case.images[self.rows], case.labels[self.rows]
        self.lines = lines
        self.verify = list(verify)
        self.queries = self.gradients = 0

    def result(self, attack: Attack) -> AttackResult:
        """What an attack does to the images of the probe."""
        found = attack.run(
            self.target,
            self.images,
            self.labels,
            ids=self.rows,
            seed=self.case.seed,
            batch_size=self.case.batch_size,
        )
        self.queries += int(found.queries.sum())
        self.gradients += int(found.gradients.sum())
        return found

    def attack(self, name: str, **settings) -> Attack:
        """An attack in the threat model of the report."""
        return attacks.get(name, **{"epsilon": self.case.epsilon, "norm": self.case.norm, **settings})

    def reported(self) -> np.ndarray | None:
        """Which images of the probe survive all attacks of the report; `None` where none was run on all."""
        flags = [
            line.robust[self.rows]
            for line in self.lines
            if line.counts and line.robust is not None and len(line.robust) > self.rows.max(initial=0)
        ]
        return np.logical_and.reduce(flags) if flags else None

    @functools.cached_property
    def noise(self) -> AttackResult:
        """A random point of the ball, and no gradient."""
        return self.result(self.attack("pgd", steps=0))

    @functools.cached_property
    def fgsm(self) -> AttackResult:
        """One step."""
        return self.result(self.attack("fgsm"))

    @functools.cached_property
    def pgd(self) -> AttackResult:
        """Ten steps, three restarts."""
        return self.result(self.attack("pgd", steps=STEPS, restarts=RESTARTS))

    @functools.cached_property
    def longer_pgd(self) -> AttackResult:
        """Forty steps, shorter ones."""
        step_size = 2.5 * self.case.epsilon / MORE_STEPS
        return self.result(self.attack("pgd", steps=MORE_STEPS, step_size=step_size))

    @functools.cached_property
    def at_scale_one(self) -> AttackResult:
        """Ten steps on the cross-entropy of unscaled logits."""
        return self.result(self.attack("pgd", steps=STEPS, logit_scale=1.0))

    @functools.cached_property
    def sweep(self) -> AttackResult:
        """Ten steps at many scales and on the margin: image by image the worst."""
        return self.result(self.attack("pgd-scale-sweep", steps=STEPS))

    @functools.cached_property
    def square(self) -> AttackResult:
        """A hundred queries of a black-box attack."""
        return self.result(self.attack("square", n_queries=QUERIES))

    @functools.cached_property
    def huge(self) -> AttackResult:
        """Any image is allowed: the box itself, which is the linf ball of radius one."""
        return self.result(
            attacks.get("cw-linf", epsilon=1.0, norm="linf", steps=2 * STEPS, restarts=RESTARTS)
        )


def _accuracy(result: AttackResult) -> float:
    return float((~result.success).mean())


def _in_first_round(result: AttackResult) -> np.ndarray:
    """Which images fall to the first of several restarts."""
    return result.success & (result.rounds <= 1)


def _ordered(probe: Probe, weak: tuple[str, np.ndarray], strong: tuple[str, np.ndarray]) -> Check:
    """The weaker attack must not take more images than the stronger one, by more than chance explains.

    Some images fall to one of two attacks only. If either were as likely to be the one, their numbers would
    differ by twice the root of their sum or less, but once in twenty times.
    """
    (weak_name, by_weak), (strong_name, by_strong) = weak, strong
    images = len(probe.rows)
    weak_alone, strong_alone = int((by_weak & ~by_strong).sum()), int((by_strong & ~by_weak).sum())
    chance = 2 * math.sqrt(weak_alone + strong_alone)
    weaker, stronger = float((~by_weak).mean()), float((~by_strong).mean())
    return Check(
        "",
        PASSED if weak_alone - strong_alone <= max(SLACK * images, 1, chance) else FAILED,
        f"{weaker:.1%} of {images} images withstand {weak_name}, {stronger:.1%} {strong_name}.",
        {weak_name: weaker, strong_name: stronger, "images": images},
    )


# -- the checks ---------------------------------------------------------------------------------------------


def noise_is_weaker(probe: Probe) -> Check:
    """Otherwise gradients point nowhere."""
    return _ordered(probe, ("random noise", probe.noise.success), ("FGSM", probe.fgsm.success))


def one_step_is_weaker(probe: Probe) -> Check:
    """Otherwise the loss surface misleads those who follow it."""
    return _ordered(probe, ("FGSM", probe.fgsm.success), (f"PGD-{STEPS}x{RESTARTS}", probe.pgd.success))


def more_steps_are_stronger(probe: Probe) -> Check:
    """Otherwise an attack loses its way; where they take many more images, it had not arrived."""
    few, many = _in_first_round(probe.pgd), probe.longer_pgd.success
    return _ordered(probe, (f"PGD-{STEPS}", few), (f"PGD-{MORE_STEPS}", many))


def restarts_are_stronger(probe: Probe) -> Check:
    """Every restart may only take images; where it takes many, chance decides too much."""
    once, several = _in_first_round(probe.pgd), probe.pgd.success
    return _ordered(probe, (f"PGD-{STEPS}", once), (f"{RESTARTS} restarts of it", several))


def black_box_is_weaker(probe: Probe) -> Check:
    """An attack without gradients that finds what those with gradients miss shows that these are masked."""
    standing = ~(probe.pgd.success | probe.longer_pgd.success | probe.sweep.success)
    reported = probe.reported()
    standing = standing if reported is None else standing & reported
    only = float((probe.square.success & standing).mean())
    return Check(
        "",
        PASSED if only <= max(SLACK, 1.0 / len(probe.rows)) else FAILED,
        f"{only:.1%} of {len(probe.rows)} images fall to Square with {QUERIES} queries and to no attack "
        "with gradients.",
        {"square alone": only, "square": _accuracy(probe.square), "images": len(probe.rows)},
    )


def huge_epsilon_reaches_zero(probe: Probe) -> Check:
    """Where every image is allowed, every image must fall."""
    left = _accuracy(probe.huge)
    return Check(
        "",
        PASSED if left <= SLACK else FAILED,
        f"{left:.1%} of {len(probe.rows)} images withstand PGD on the margin where any image is allowed.",
        {"accuracy": left, "images": len(probe.rows)},
    )


def gradients_are_there(probe: Probe) -> Check:
    """A gradient of zero is nothing to climb, and one that is not finite was taken as zero."""
    batch = slice(0, probe.case.batch_size)
    try:
        zero = zero_gradients(probe.target, probe.images[batch], probe.labels[batch])
    except NotApplicable as error:
        return Check("", FAILED, str(error), {"zero": 1.0})
    results = [probe.fgsm, probe.pgd]
    nonfinite = sum(int(r.nonfinite.sum()) for r in results) + sum(line.nonfinite for line in probe.lines)
    gradients = sum(int(r.gradients.sum()) for r in results) + sum(line.gradients for line in probe.lines)
    share = nonfinite / max(gradients, 1)
    return Check(
        "",
        PASSED if zero <= SLACK and nonfinite == 0 else FAILED,
        f"{zero:.1%} of {len(probe.images[batch])} images have a zero gradient; {nonfinite:,} of "
        f"{gradients:,} gradients were not finite.",
        {"zero": zero, "nonfinite": nonfinite, "nonfinite share": share, "gradients": gradients},
    )


def logits_are_logits(probe: Probe) -> Check:
    """Probabilities, or cosines without a scale, make cross-entropy a weak thing to climb."""
    logits = probe.case.clean.logits
    low, high = float(logits.min()), float(logits.max())
    largest = max(abs(low), abs(high))
    if like_probabilities(logits.astype(np.float64)):
        kind = "look like probabilities"
    elif largest <= 1 + 1e-5:
        kind = "look like cosines without a scale"
    else:
        kind = "look like logits"
    return Check(
        "",
        PASSED if kind == "look like logits" else FAILED,
        f"The outputs lie between {low:.3g} and {high:.3g}, and {kind}.",
        {"lowest": low, "highest": high},
    )


def inputs_are_images(probe: Probe) -> Check:
    """A model that wants normalised inputs is measured on images it was never made for."""
    better = probe.traits.better_inputs
    if better is None:
        detail = "No usual way of normalising the inputs makes the model better than images in [0, 1] do."
        return Check("", PASSED, detail, {"accuracy": probe.traits.accuracy})
    return Check(
        "",
        FAILED,
        f"The accuracy is {probe.traits.accuracy:.1%} on images in [0, 1], and {better[1]:.1%} when they are "
        f"{better[0]}: put the normalisation inside the model.",
        {"accuracy": probe.traits.accuracy, "accuracy otherwise": better[1]},
    )


def model_is_deterministic(probe: Probe) -> Check:
    """Dropout or noise at inference lets images survive by luck."""
    if probe.traits.steady:
        return Check("", PASSED, "The same images give the same logits, pass after pass.")
    return Check(
        "", FAILED, "The same images give other logits in every pass: use autoattack-rand, which averages."
    )


def images_do_not_mix(probe: Probe) -> Check:
    """Batch normalisation in training mode would make an image's logits depend on its batch."""
    if not probe.traits.steady:
        raise NotApplicable("the model is randomised.")
    batch = tf.convert_to_tensor(probe.images[:8])
    together = probe.target.compiled_logits(batch).numpy()
    alone = np.concatenate([probe.target.compiled_logits(batch[i : i + 1]) for i in range(len(batch))])
    gap = float(np.abs(together - alone).max())
    allowed = 1e-3 * max(1.0, float(np.abs(together).max()))
    return Check(
        "",
        PASSED if gap <= allowed else FAILED,
        f"Logits of an image alone and in a batch differ by at most {gap:.2g}.",
        {"difference": gap},
    )


def margins_are_not_saturated(probe: Probe) -> Check:
    """In float32, cross-entropy is exactly zero from a margin of 17 on, and its gradient with it."""
    logits = probe.case.clean.logits.astype(np.float64)
    labels = probe.case.labels[: len(logits)]
    own = np.take_along_axis(logits, labels[:, np.newaxis], axis=1)[:, 0]
    others = np.where(np.arange(logits.shape[1]) == labels[:, np.newaxis], -np.inf, logits).max(axis=1)
    share = float(np.mean(own - others >= SATURATED_MARGIN))
    return Check(
        "",
        PASSED if share <= SLACK else FAILED,
        f"{share:.1%} of {len(labels)} images have a margin of {SATURATED_MARGIN:g} or more.",
        {"share": share, "images": len(labels)},
    )


def scale_does_not_matter(probe: Probe) -> Check:
    """The attacks of the report must not have missed what another scale of the logits finds.

    What three restarts at the model's own scale find as well is not owed to the scale.
    """
    one, own = _accuracy(probe.at_scale_one), float((~_in_first_round(probe.pgd)).mean())
    swept = _accuracy(probe.sweep)
    reported = probe.reported()
    standing = ~probe.pgd.success if reported is None else reported & ~probe.pgd.success
    missed = float((probe.sweep.success & standing).mean())
    return Check(
        "",
        PASSED if missed <= max(SLACK, 1.0 / len(probe.rows)) else FAILED,
        f"Cross-entropy at scale 1 flatters this model by {100 * (one - swept):.1f} points, at its own scale "
        f"by {100 * (own - swept):.1f}. {missed:.1%} of {len(probe.rows)} images fall to a sweep of scales "
        "only.",
        {
            "ce at scale 1": one,
            "ce at the model's scale": own,
            "sweep": swept,
            "flattery at scale 1": one - swept,
            "missed": missed,
        },
    )


def larger_epsilon_is_stronger(probe: Probe) -> Check:
    """The same attack in a larger ball must not leave more images standing."""
    ran = [line for line in probe.lines if line.robust is not None and line.epsilon is not None]
    families: dict[str, list[AttackReport]] = {}
    for line in sorted(ran, key=lambda line: line.epsilon or 0.0):
        families.setdefault(line.name.partition(" @ ")[0], []).append(line)
    pairs = [pair for family in families.values() for pair in itertools.pairwise(family)]
    if not pairs:
        raise NotApplicable("the attacks were run at one epsilon only.")
    rises = {f"{a.name}, {b.name}": b.accuracy - a.accuracy for a, b in pairs}
    worst = max(rises, key=lambda name: rises[name])
    return Check(
        "",
        PASSED if rises[worst] <= SLACK else FAILED,
        "From one epsilon to the next the accuracy rises by at most "
        f"{100 * max(rises[worst], 0):.1f} points.",
        {"largest rise": rises[worst]},
    )


def attacks_are_strong_enough(probe: Probe) -> Check:
    """What these cheap attacks find, the attacks of the report must have found."""
    reported = probe.reported()
    if reported is None:
        raise NotApplicable("no attack of this report was run on all images within the threat model.")
    found = (probe.noise, probe.fgsm, probe.pgd, probe.longer_pgd, probe.sweep, probe.square)
    fell = np.logical_or.reduce([result.success for result in found])
    missed = float((fell & reported).mean())
    advice = "" if missed <= 2 * SLACK else " Use more restarts, or --protocol=full."
    return Check(
        "",
        FAILED if advice else PASSED,
        f"{missed:.1%} of {len(probe.rows)} images fall to the attacks of this sheet and to no attack of the "
        f"report: its worst case is too high by about that much.{advice}",
        {"missed": missed, "images": len(probe.rows)},
    )


def independent_code_agrees(probe: Probe) -> Check:
    """An attack by other hands must not be stronger than the same one of ours."""
    ran = [entry for entry in probe.verify if "difference" in entry]
    if not ran:
        raise NotApplicable("no other package was asked, as --verify_with=cleverhans,foolbox,art does.")
    largest = max(entry["difference"] for entry in ran)
    return Check(
        "",
        PASSED if largest <= 2 * SLACK else FAILED,
        f"In {len(ran)} comparisons, the accuracy here was higher than there by at most "
        f"{100 * max(largest, 0):.1f} points.",
        {"largest difference": largest},
    )


CHECKS = (
    ("logits are logits", logits_are_logits),
    ("inputs are images in [0, 1]", inputs_are_images),
    ("the model is deterministic", model_is_deterministic),
    ("images of a batch do not mix", images_do_not_mix),
    ("float32 margins are not saturated", margins_are_not_saturated),
    ("gradients are there and finite", gradients_are_there),
    ("random noise is weaker than FGSM", noise_is_weaker),
    ("FGSM is weaker than PGD", one_step_is_weaker),
    ("more steps do not help the defender", more_steps_are_stronger),
    ("more restarts do not help the defender", restarts_are_stronger),
    ("a larger epsilon does not help the defender", larger_epsilon_is_stronger),
    ("black box does not beat white box", black_box_is_weaker),
    ("a huge epsilon reaches zero", huge_epsilon_reaches_zero),
    ("the scale of the logits hides nothing", scale_does_not_matter),
    ("the attacks of this report are strong enough", attacks_are_strong_enough),
    ("independent code agrees", independent_code_agrees),
)


def sanity_sheet(probe: Probe, tell=None) -> tuple[list[Check], dict]:
    """All checks, and what they cost.

    Args:
        probe: The model.
        tell: Called with (checks done, checks in all).
    """
    began = time.perf_counter()
    sheet = []
    for done, (name, function) in enumerate(CHECKS):
        if tell is not None:
            tell(done, len(CHECKS))
        sheet.append(_checked(name, function, probe))
    cost = {
        "images": len(probe.rows),
        "queries": probe.queries,
        "gradients": probe.gradients,
        "seconds": round(time.perf_counter() - began, 2),
    }
    return sheet, cost


def _checked(name: str, function, probe: Probe) -> Check:
    if not len(probe.rows):
        return Check(name, NOT_RUN, "Not one image is classified correctly, so there is nothing to attack.")
    try:
        return dataclasses.replace(function(probe), name=name)
    except InputError as error:
        return Check(name, NOT_RUN, _sentence(str(error)))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
