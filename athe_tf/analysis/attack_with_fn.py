"""Attacks with and without normalized features: Table 7 of the HE paper."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.number_format import format_number


class AttackWithFN(AnalysisResult):
    """Accuracies under both attacks; made by `attack_with_fn`.

    Example:

    >>> athe_tf.analysis.attack_with_fn(model, (x, y), attack, steps=(1,)).steps
    (1,)

    Args:
        steps: Numbers of steps.
        plain: Accuracy under PGD with each number of steps.
        normalized: Accuracy under PGD through normalized features.
    """

    analysis = "attack_with_fn"
    summary = "PGD-1 and PGD-2 with and without normalized features (HE, Table 7)"
    needs = "features"
    what_to_see = (
        "Each pair of bars: accuracy under PGD (left) and under PGD through normalized features (right, "
        "hatched). A lower right bar means that normalized features make the attack stronger (Table 7)."
    )
    shared = False

    steps: tuple[int, ...]
    plain: np.ndarray
    normalized: np.ndarray

    @classmethod
    def compute(
        cls, subject: Subject, *, steps: tuple[int, ...] = argument((1, 2), "Numbers of steps.")
    ) -> "AttackWithFN":
        """Attacks a model with PGD, with and without normalized features in the loss (Table 7).

        The paper does so with a standardly trained model, PGD-1 and PGD-2. Attacks start at the image. The
        ball and the step size are those of the attack, by default 8/255 and 2/255 as in the paper, so that
        the border of the ball is not reached.

        Reference:
            Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, Table 7.
        """
        from athe_tf.attacks.feature import FeatureNormPGD
        from athe_tf.attacks.gradient import PGD

        threat, step_size = subject.attack.threat, subject.attack.step_size
        FeatureNormPGD(threat.epsilon, threat.norm).check_victim(subject.victim)

        def accuracy(kind, count):
            attack = kind(threat.epsilon, threat.norm, steps=count, step_size=step_size, start="zero")
            return subject.accuracy(attack)

        runs = [(kind, count) for count in steps for kind in (PGD, FeatureNormPGD)]
        found = [accuracy(kind, count) for kind, count in subject.track(runs, len(runs))]
        return cls(
            **subject.facts(attack=subject.ball_text, step_size=format_number(step_size)),
            steps=tuple(steps),
            plain=np.array(found[::2]),
            normalized=np.array(found[1::2]),
        )

    @property
    def key_numbers(self):
        attacks = {"": self.plain, " with FN": self.normalized}
        return {
            f"PGD-{count}{kind} (%)": 100 * float(accuracies[i])
            for i, count in enumerate(self.steps)
            for kind, accuracies in attacks.items()
        }

    def draw(self, axes, series, results):
        (ax,) = axes
        for place, (values, name) in enumerate([(self.plain, "PGD"), (self.normalized, "PGD with FN")]):
            drawing.bars(ax, 100 * values, place, 2, name)
            for x, value in zip(drawing.bar_places(len(values), place, 2), 100 * values, strict=True):
                ax.text(x, value, f"{value:.1f}", ha="center", va="bottom", fontsize=drawing.SMALL)
        ax.set_ylim(0, 100)
        ax.set_xticks(range(len(self.steps)), [str(n) for n in self.steps])
        drawing.finish(ax, "steps of the attack", "accuracy (%)", self.model)


attack_with_fn = function_of(AttackWithFN.compute)
