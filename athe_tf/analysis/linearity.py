"""How far the loss is from its tangent: gamma of LLR."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of


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
    summary = "distance of the loss from its tangent against epsilon (LLR)"
    what_to_see = (
        "The distance between the loss and its tangent at the clean image: the largest in the ball (gamma, "
        "solid markers) and at the adversarial image (hollow markers). Lower is more linear: there, one "
        "gradient step is nearly the strongest attack."
    )

    norm: str
    epsilons: tuple[float, ...]
    gamma: np.ndarray
    along_attack: np.ndarray

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        epsilons: tuple[float, ...] | None = argument(
            None, "Radii, ascending. Defaults to 1/4, 1/2, 1, 3/2 and 2 times that of the attack."
        ),
        loss: str = argument("ce", "The name of an attack's loss."),
    ) -> "Linearity":
        """Measures gamma(epsilon, x) of Qin et al. and the gap at adversarial images, against epsilon.

        The attack is repeated with each radius.

        Reference: https://arxiv.org/abs/1907.02610
        """
        import tensorflow as tf

        from athe_tf.attacks import losses
        from athe_tf.attacks.engine.gradients import inner_product, input_gradient
        from athe_tf.attacks.local_linearity import LocalLinearity, linear_gap

        epsilons = subject.radii(0.25, 0.5, 1.0, 1.5, 2.0) if epsilons is None else epsilons
        function = losses.get(loss)

        @tf.function(autograph=False, reduce_retracing=True)
        def gap(x, x_moved, y):
            def loss_of(images):
                return function(subject.victim.logits(images), y)

            here, gradient = input_gradient(loss_of, x)
            return linear_gap(loss_of(x_moved), here, inner_product(x_moved - x, gradient))

        sums, norm = np.zeros((len(epsilons), 2)), subject.attack.threat.norm
        attacks = [subject.attack.with_epsilon(epsilon) for epsilon in epsilons]
        searches = [
            LocalLinearity(e, norm, steps=a.steps, step_size=a.step_size, start="uniform", loss=loss)
            for e, a in zip(epsilons, attacks, strict=True)
        ]
        for x, y, ids in subject.batches():
            for row, (search, climb) in enumerate(zip(searches, attacks, strict=True)):
                points = [subject.adversarial(x, y, ids, one) for one in (search, climb)]
                gaps = [gap(x, point, y).numpy() for point in points]
                # The adversarial image is in the ball too: the larger of both is the better bound of gamma.
                sums[row] += np.maximum(*gaps).sum(), gaps[1].sum()
        gamma, along = (sums / len(subject)).T
        facts = subject.facts(loss=loss)
        return cls(**facts, norm=norm, epsilons=tuple(epsilons), gamma=gamma, along_attack=along)

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


linearity = function_of(Linearity.compute)
