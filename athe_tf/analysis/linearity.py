"""How far the loss is from its tangent: gamma of LLR."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.analysis import drawing
from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject
from athe_tf.attacks import losses
from athe_tf.attacks.engine.gradients import inner_product, input_gradient
from athe_tf.attacks.local_linearity import LocalLinearity, linear_gap
from athe_tf.utils.errors import check


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Linearity(AnalysisResult):
    """The gap between the loss and its tangent, against epsilon; made by `linearity`.

    Example:

    >>> athe_tf.analysis.linearity(model, (x, y), attack, epsilons=(0.1,)).gamma.shape
    (1,)

    Args:
        norm: The norm of the ball.
        epsilons: Radii.
        gamma: Mean over images of gamma, the largest gap found in the ball.
        along_attack: Mean gap at the adversarial image.
    """

    analysis = "linearity"
    what_to_see = (
        "The distance between the loss and its tangent at the clean image: the largest in the ball (gamma, "
        "solid markers) and at the adversarial image (hollow markers). Lower is more linear: there, one "
        "gradient step is nearly the strongest attack."
    )

    norm: str
    epsilons: tuple[float, ...]
    gamma: np.ndarray
    along_attack: np.ndarray

    @property
    def key_numbers(self):
        return {
            "gamma at the largest epsilon": float(self.gamma[-1]),
            "at the adversarial image": float(self.along_attack[-1]),
        }

    def draw(self, axes, series, results):
        (ax,) = axes
        factor, unit = drawing.pixel_unit(self.norm)
        radii, style = factor * np.array(self.epsilons), drawing.line_style(series)
        ax.plot(radii, self.gamma, label=f"{self.model}: gamma", **style)
        thin = style | {"linewidth": 1.3, "markerfacecolor": "white"}
        ax.plot(radii, self.along_attack, label=f"{self.model}: attack", **thin)
        drawing.from_zero(ax)
        drawing.finish(ax, f"epsilon ({unit})", "distance of loss\nand tangent (nats)")


def linearity(
    model,
    data,
    attack=None,
    options: AnalysisOptions | None = None,
    *,
    epsilons: tuple[float, ...] | None = None,
    loss: str = "ce",
) -> Linearity:
    """Measures gamma(epsilon, x) of Qin et al. and the gap at adversarial images, against epsilon.

    Example:

    >>> result = athe_tf.analysis.linearity(model, (x, y), attack, epsilons=(0.05, 0.1))

    Args:
        model: A Keras model, or anything that `athe_tf.victim` takes.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack, repeated with each radius. Defaults to PGD-10.
        options: Number of images and the like.
        epsilons: Radii, ascending. Defaults to 1/4, 1/2, 1, 3/2 and 2 times that of the attack.
        loss: The name of an attack's loss. Defaults to `"ce"`.

    Reference: https://arxiv.org/abs/1907.02610
    """
    subject = Subject("linearity", model, data, attack, options)
    epsilons = subject.radii(0.25, 0.5, 1.0, 1.5, 2.0) if epsilons is None else epsilons
    check(len(epsilons) > 0, "`epsilons` must not be empty.")
    function = losses.get(loss)

    @tf.function(autograph=False, reduce_retracing=True)
    def gap(x, x_moved, y):
        def loss_of(images):
            return function(subject.victim.logits(images), y)

        here, gradient = input_gradient(loss_of, x)
        return linear_gap(loss_of(x_moved), here, inner_product(x_moved - x, gradient))

    sums = np.zeros((len(epsilons), 2))
    attacks = [subject.attack.with_epsilon(epsilon) for epsilon in epsilons]
    searches = [
        LocalLinearity(
            e, subject.attack.threat.norm, steps=a.steps, step_size=a.step_size, start="uniform", loss=loss
        )
        for e, a in zip(epsilons, attacks, strict=True)
    ]
    for x, y, ids in subject.batches():
        for row, (search, climb) in enumerate(zip(searches, attacks, strict=True)):
            points = [subject.adversarial(x, y, ids, one) for one in (search, climb)]
            gaps = [gap(x, point, y).numpy() for point in points]
            # The adversarial image is in the ball too: the larger of both is the better bound of gamma.
            sums[row] += np.maximum(*gaps).sum(), gaps[1].sum()
    gamma, along = (sums / len(subject)).T
    return Linearity(
        **subject.facts(loss=loss),
        norm=subject.attack.threat.norm,
        epsilons=tuple(epsilons),
        gamma=gamma,
        along_attack=along,
    )
