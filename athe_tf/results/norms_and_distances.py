"""What a result says beside its headline: worst cases in several norms, and the distances of images."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from athe_tf.results.file_format import CurvePoint, Distances, Randomized, ThreatModel, Union
from athe_tf.results.intervals import interval_of
from athe_tf.utils.number_format import format_number, parse_number

if TYPE_CHECKING:
    from athe_tf.results.attack_outcome import AttackOutcome
    from athe_tf.results.result import Result

# Points of the curve of distances above zero, and how far it goes, in epsilons.
POINTS, REACH = 8, 2.0
# Perturbations that are longer than the radius by rounding count, as in `ThreatModel.within`.
TOLERANCE = 1e-6
# The chance at which a count of passes is still called luck.
DOUBT = 0.05


def worst_cases(result: "Result") -> list[ThreatModel]:
    """All threat models; if there are several, with the worst case of each where an attack covers it."""
    models = result.threat_models or [{"norm": result.norm, "epsilon": result.epsilon_text}]
    if len(models) < 2:
        return models
    found: list[ThreatModel] = []
    for number, model in enumerate(models):
        robust, covered = _robust_in(result, model, first=not number)
        worst: Any = {"worst_case_accuracy": float(robust.mean()), "worst_case_interval": interval_of(robust)}
        known: Any = {"norm": model["norm"], "epsilon": model["epsilon"]}
        found.append(known | (worst if covered else {}))
    return found


def union(result: "Result") -> Union | None:
    """The images that withstand the attacks in all norms; `None` unless there are several, all covered."""
    models = result.worst_cases
    if len(models) < 2 or not all("worst_case_accuracy" in one for one in models):
        return None
    robust = np.logical_and.reduce([_robust_in(result, one, not i)[0] for i, one in enumerate(models)])
    mean = float(np.mean([one["worst_case_accuracy"] for one in models]))
    return {"accuracy": float(robust.mean()), "interval": interval_of(robust), "mean": mean}


def _robust_in(result: "Result", model: ThreatModel, first: bool) -> tuple[np.ndarray, bool]:
    """Which images survive the attacks within a threat model, and whether one of them covers all of it."""
    # The text of a radius has six digits.
    radius, rounding = parse_number(model["epsilon"]), 1e-5

    def inside(one: "AttackOutcome", at_least: float = 0.0) -> bool:
        share = result.epsilon_of(one) / max(radius, 1e-9)
        return one.in_ball and one.norm == model["norm"] and at_least <= share + rounding <= 1 + 2 * rounding

    attacks = result.counted if first else [one for one in result.ran if inside(one)]
    covered = [one for one in attacks if inside(one, 1.0) and one.image_count >= result.examples]
    return result.survivors(attacks), bool(covered)


def verdict_of_union(result: "Result") -> str:
    """What the verdict says about several norms; empty for one."""
    found, models = result.union, result.worst_cases
    if found is None:
        missing = [_name(one) for one in models[1:] if "worst_case_accuracy" not in one]
        return f"No attack was run on all images within {', '.join(missing)}." if missing else ""
    return f"{found['accuracy']:.1%} withstand all attacks within each of {', '.join(map(_name, models))}."


def _name(model: ThreatModel) -> str:
    return f"{model['norm']} {model['epsilon']}"


def distances(result: "Result") -> Distances | None:
    """The distances of all images to the nearest adversarial example found by minimum-norm attacks.

    They reach beyond epsilon, so one run gives a whole curve: the share of images whose distance is larger.
    """
    used = [
        one
        for one in result.ran
        if one.minimum_norm and one.norms is not None and one.norm in (None, result.norm)
        if len(one.norms) == result.examples
    ]
    radius = max([REACH * result.epsilon, *(result.epsilon_of(one) for one in result.ran if one in used)])
    if not used or radius == 0:
        return None
    lengths = np.min([one.norms for one in used if one.norms is not None], axis=0)
    median = float(np.median(lengths))
    expected = float(np.minimum(lengths, radius).mean())
    points: list[CurvePoint] = []
    for at in np.linspace(0.0, radius, POINTS + 1).tolist():
        flags = lengths > at + TOLERANCE * min(at, 1.0)
        points.append({"epsilon": at, "accuracy": float(flags.mean()), "interval": interval_of(flags)})
    return {
        "attacks": [result.label(one) for one in used], "radius": radius, "expected_robustness": expected,
        "area": expected / radius, "median": median if np.isfinite(median) else None, "points": points,
    }  # fmt: skip


def distances_sentence(result: "Result") -> str | None:
    """The distances in one sentence; `None` without a minimum-norm attack."""
    found = result.distances
    if not found:
        return None
    median = "more than half of the images have none" if found["median"] is None else f"{found['median']:.4g}"
    return (
        f"Distances by {', '.join(found['attacks'])}: the median is {median}; the expected robustness up to "
        f"{format_number(found['radius'])} is {found['expected_robustness']:.4g}, {found['area']:.1%} of it."
    )


def randomized_accuracies(result: "Result", clean_wrong: np.ndarray, passes: int) -> Randomized:
    """What several passes of a randomized model say: the worst case of its majority and of its mean.

    An image has the wrong passes of the example that fools the model most often. The lower bound counts only
    images whose share of wrong passes is below one half with a confidence of 95% (binomial, one-sided).

    Args:
        result: An evaluation whose attacks have `broken_passes`.
        clean_wrong: How many passes are wrong for each clean image.
        passes: Passes per image.
    """
    wrong = clean_wrong.copy()
    for one in result.counted:
        if one.broken_passes is not None:
            part = slice(len(one.broken_passes))
            wrong[part] = np.maximum(wrong[part], one.broken_passes)
    chances = np.cumsum([math.comb(passes, count) for count in range(passes + 1)]) / 2**passes
    surely = int((chances <= DOUBT).sum())  # so many wrong passes may be bad luck of the attack
    return {
        "passes": passes,
        "needed": passes // 2 + 1,
        "mean_accuracy": 1 - float(wrong.mean()) / passes,
        "majority_accuracy": float((2 * wrong <= passes).mean()),
        "lower_bound": float((wrong < surely).mean()),
    }


def randomized_sentence(found: Randomized | None) -> str | None:
    """The accuracies of a randomized model; `None` for other models."""
    if not found or "lower_bound" not in found:
        return None
    return (
        f"Randomized model: an image is broken if {found['needed']} of {found['passes']} fresh passes are "
        f"wrong. Under attack, the majority is right for {found['majority_accuracy']:.1%} of the images (for "
        f"{found['lower_bound']:.1%} with 95% confidence), a single pass for {found['mean_accuracy']:.1%}."
    )
