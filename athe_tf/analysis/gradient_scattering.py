"""How much neighboring weights disagree about adversarial gradients, against epsilon."""

from typing import TYPE_CHECKING

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.errors import check

if TYPE_CHECKING:
    from athe_tf.analysis.weights import WeightLoss


class GradientScattering(AnalysisResult):
    """Differences of gradients and perturbations; made by `gradient_scattering`.

    Example:

    >>> result = athe_tf.analysis.gradient_scattering(model, (x, y), attack, epsilons=(0.0, 0.1))
    >>> result.gradient_differences.shape
    (2,)

    Args:
        norm: The norm of the attack.
        epsilons: Radii of the attack.
        gradient_differences: `||grad L_eps(theta1) - grad L_eps(theta2)||` for each.
        perturbation_cosines: Mean cosine between the perturbations of both models; NaN for radius 0.
    """

    analysis = "gradient_scattering"
    summary = "gradients of neighboring weights against epsilon (PAS)"
    needs = "weights"
    panels = 2
    what_to_see = (
        "Two models whose weights are close. Left: the difference of their adversarial gradients; a rising "
        "line means that larger radii scatter the gradients. Right: the cosine between their perturbations; "
        "a falling line means that they find different adversarial images."
    )

    norm: str
    epsilons: tuple[float, ...]
    gradient_differences: np.ndarray
    perturbation_cosines: np.ndarray

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        epsilons: tuple[float, ...] | None = argument(
            None, "Radii, ascending. Defaults to 0, 1/4, 1/2, 1 and 3/2 times that of the attack."
        ),
        distance: float = argument(
            0.01,
            "Length of the step in a filter-normalized random direction, relative to that of each filter.",
        ),
    ) -> "GradientScattering":
        """Measures how differently two models with neighboring weights see their adversarial images.

        The attack is repeated with each radius.

        Reference:
            Liu et al., "On the Loss Landscape of Adversarial Training", NeurIPS 2020.
        """
        epsilons = subject.radii(0.0, 0.25, 0.5, 1.0, 1.5) if epsilons is None else epsilons
        check(distance > 0, f"`distance` must be above 0. Received: {distance}.")
        loss = subject.weight_loss(subject.x)
        step = distance * loss.filter_normalized(subject.options.seed)
        found = [_at(subject, loss, step, e) for e in subject.track(epsilons, len(epsilons))]
        differences, cosines = zip(*found, strict=True)
        return cls(
            **subject.facts(distance=distance),
            norm=subject.attack.threat.norm,
            epsilons=tuple(epsilons),
            gradient_differences=np.array(differences),
            perturbation_cosines=np.array(cosines),
        )

    @property
    def key_numbers(self):
        return {
            "gradient difference at the smallest epsilon": float(self.gradient_differences[0]),
            "at the largest": float(self.gradient_differences[-1]),
            "cosine of perturbations at the largest": float(self.perturbation_cosines[-1]),
        }

    def draw(self, axes, series, results):
        left, right = axes
        factor, unit = drawing.pixel_unit(self.norm)
        radii = factor * np.array(self.epsilons)
        left.plot(radii, self.gradient_differences, label=self.model, **drawing.line_style(series))
        right.plot(radii, self.perturbation_cosines, label=self.model, **drawing.line_style(series))
        drawing.from_zero(left)
        drawing.finish(left, f"epsilon ({unit})", "norm of the difference\nof adversarial gradients")
        drawing.finish(right, f"epsilon ({unit})", "cosine of the perturbations")


def _at(subject: Subject, loss: "WeightLoss", step: np.ndarray, epsilon: float) -> tuple[float, float]:
    """The difference of gradients, and the mean cosine of perturbations, at one radius."""
    attack = subject.attack.with_epsilon(epsilon) if epsilon > 0 else None

    def crafted(x, y, ids):
        return x if attack is None else subject.adversarial(x, y, ids, attack)

    difference, cosines = np.zeros(loss.size), []
    for x, y, ids in subject.untracked_batches():
        here = crafted(x, y, ids)
        gradient = loss.on(here, y).gradient()
        with loss.moved(step):
            there = crafted(x, y, ids)
            difference += len(x) * (gradient - loss.on(there, y).gradient())
        cosines.append(_cosines((here - x).numpy(), (there - x).numpy()))
    return float(np.linalg.norm(difference) / len(subject)), _mean_of_numbers(np.concatenate(cosines))


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of each pair of perturbations; NaN where one is zero."""
    a, b = (v.reshape(len(v), -1).astype("float64") for v in (a, b))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.divide((a * b).sum(axis=1), lengths, out=np.full(len(a), np.nan), where=lengths > 0)


def _mean_of_numbers(values: np.ndarray) -> float:
    """The mean of those that are not NaN; NaN if all are."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


gradient_scattering = function_of(GradientScattering.compute)
