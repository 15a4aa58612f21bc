"""How much neighbouring weights disagree about adversarial gradients, against epsilon."""

import dataclasses

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.directions import filter_normalized
from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject
from athe_tf.analysis.weights import WeightLoss
from athe_tf.utils.errors import check


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class GradientScattering(AnalysisResult):
    """Differences of gradients and perturbations; made by `gradient_scattering`.

    Example:

    >>> result = athe_tf.analysis.gradient_scattering(model, (x, y), attack, epsilons=(0.0, 0.1))
    >>> result.gradient_differences.shape
    (2,)

    Args:
        epsilons: Radii of the attack.
        gradient_differences: `||grad L_eps(theta1) - grad L_eps(theta2)||` for each.
        perturbation_cosines: Mean cosine between the perturbations of both models; NaN for radius 0.
    """

    analysis = "gradient_scattering"
    panels = 2
    what_to_see = (
        "Two models whose weights are close. Left: the difference of their adversarial gradients; a rising "
        "line means that larger radii scatter the gradients. Right: the cosine between their perturbations; "
        "a falling line means that they find different adversarial images."
    )

    epsilons: tuple[float, ...]
    gradient_differences: np.ndarray
    perturbation_cosines: np.ndarray

    @property
    def key_numbers(self):
        return {
            "gradient difference at the smallest epsilon": float(self.gradient_differences[0]),
            "at the largest": float(self.gradient_differences[-1]),
            "cosine of perturbations at the largest": float(self.perturbation_cosines[-1]),
        }

    def draw(self, axes, series, count):
        left, right = axes
        pixels = 255 * np.array(self.epsilons)
        left.plot(pixels, self.gradient_differences, label=self.model, **drawing.line_style(series))
        right.plot(pixels, self.perturbation_cosines, label=self.model, **drawing.line_style(series))
        drawing.from_zero(left)
        drawing.finish(left, "epsilon (1/255)", "norm of the difference\nof adversarial gradients")
        drawing.finish(right, "epsilon (1/255)", "cosine of the perturbations")


def gradient_scattering(
    model,
    data,
    attack=None,
    options: AnalysisOptions | None = None,
    *,
    epsilons: tuple[float, ...] = (0.0, 2 / 255, 4 / 255, 8 / 255, 12 / 255),
    distance: float = 0.01,
) -> GradientScattering:
    """Measures how differently two models with neighbouring weights see their adversarial images.

    Example:

    >>> result = athe_tf.analysis.gradient_scattering(model, (x, y), attack, epsilons=(0.0, 0.1))

    Args:
        model: A Keras model.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack, repeated with each radius. Defaults to PGD-10.
        options: Number of images and the like.
        epsilons: Radii, ascending. Defaults to 0, 2, 4, 8 and 12 divided by 255.
        distance: Length of the step in a filter-normalized random direction, relative to the length of each
            filter. Defaults to 0.01.

    Reference:
        Liu et al., "On the Loss Landscape of Adversarial Training", NeurIPS 2020.
    """
    check(len(epsilons) > 0 and distance > 0, "`epsilons` must not be empty, and `distance` must be above 0.")
    subject = Subject(model, data, attack, options)
    size = subject.options.batch_size
    loss = WeightLoss(subject.keras_model("gradient_scattering"), subject.x, subject.y, size)
    step = distance * filter_normalized(loss, subject.options.seed)
    found = [_at(subject, loss, step, e) for e in subject.track(epsilons, len(epsilons))]
    differences, cosines = zip(*found, strict=True)
    return GradientScattering(
        **subject.facts(distance=distance),
        epsilons=tuple(epsilons),
        gradient_differences=np.array(differences),
        perturbation_cosines=np.array(cosines),
    )


def _at(subject: Subject, loss: WeightLoss, step: np.ndarray, epsilon: float) -> tuple[float, float]:
    """The difference of gradients, and the mean cosine of perturbations, at one radius."""
    attack = subject.attack.with_epsilon(epsilon) if epsilon > 0 else None
    size, seed = subject.options.batch_size, subject.options.seed

    def crafted(x, y, ids):
        return x if attack is None else attack(subject.victim, x, y, ids=ids, seed=seed).numpy()

    difference, cosines = np.zeros(loss.size), []
    for start in range(0, len(subject), size):
        part = slice(start, start + size)
        x, y, ids = subject.x[part], subject.y[part], np.arange(start, start + len(subject.x[part]))
        here = crafted(x, y, ids)
        gradient = loss.on(here, y).gradient()
        with loss.moved(step):
            there = crafted(x, y, ids)
            difference += len(x) * (gradient - loss.on(there, y).gradient())
        cosines.append(_cosines(here - x, there - x))
    return float(np.linalg.norm(difference) / len(subject)), float(np.concatenate(cosines).mean())


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of each pair of perturbations; NaN where one is zero."""
    a, b = (v.reshape(len(v), -1).astype("float64") for v in (a, b))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.divide((a * b).sum(axis=1), lengths, out=np.full(len(a), np.nan), where=lengths > 0)
