"""Swift: a cascade for every day, at about a tenth of AutoAttack's passes. It is not AutoAttack."""

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.apgd import APGDT
from athe_tf.attacks.cascade import Cascade, CascadeSchedule
from athe_tf.attacks.constraint_relaxation import ConstraintRelaxation, closest_margin, distances
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.results import AttackResult, Costs, RoundResult
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.square import Square
from athe_tf.models.victim import Victim

# The detector's margin, as a share of the gradient attacks', below which gradients mislead.
MISLED = 0.75
CR, APGD_T, DETECTOR, SQUARE = "cr", "apgd-t", "square-detector", "square"


class SwiftSchedule(CascadeSchedule):
    """Which images go on to which stage, decided for each image alone."""

    def eligible_images(self, member, result: AttackResult) -> np.ndarray | None:
        if member.name == APGD_T:
            return distances(result.memory[CR]).min(axis=1) < self.attack.come_close
        return misled(result) if member.name == SQUARE else None

    def craft_passes(self, victim: Victim) -> float:
        return self.attack.attacks[0].schedule.craft_passes(victim)


def misled(result: AttackResult) -> np.ndarray:
    """Images for which a few random queries reached a much smaller margin than gradient attacks."""
    stage = next(stage for stage in result.stages if stage.name == DETECTOR)
    seen = result.rounds >= stage.end
    return seen & (result.memory[DETECTOR][:, 0] < MISLED * closest_margin(result.memory[CR]))


class Swift(Cascade):
    """Constraint relaxation, APGD-T where it came close, and a short Square that detects masked gradients.

    | stage | images |
    |---|---|
    | `cr` | all |
    | `apgd-t` | those that survive, but whose boundary came closer than `come_close` |
    | `square-detector` | all survivors, with `detector_queries` |
    | `square` | survivors for which the detector reached a margin a quarter below `cr`'s |

    The margin that Square reaches within a few hundred queries is far from what gradients reach, unless
    gradients mislead: then random search is stronger. On such images, and only there, Square goes on with
    `n_queries`, and the notes of the result say so. Every decision is one of the image alone, so the result
    depends neither on the batch nor on which other images are attacked.

    For validation during training, calling it gives a short form that is compiled as one graph and runs on
    every replica: `cr` with one start per target, without the other stages.

    **This is not AutoAttack**: use it every day, and AutoAttack for a number to publish. The notes of every
    result say so.

    Example:

    >>> attack = athe_tf.attacks.Swift(epsilon=8 / 255)
    >>> result = attack.run(model, x, y, state="swift.npz")
    >>> table = attack.table(result)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default) or `"l2"`, where it is weaker beside AutoAttack than in linf.
        come_close: Images whose smallest distance to a boundary in `cr`, linearized and in epsilons, is below
            this go on to `apgd-t`. Defaults to 0.1.
        n_targets: Targets of `apgd-t`. Defaults to 3.
        detector_queries: Queries of the detector. Defaults to 200.
        n_queries: Queries of Square where gradients mislead. Defaults to 5000.
    """

    name = "swift"
    norms = ("linf", "l2")
    title = "Swift"
    number_argument = "n_queries"
    schedule_class = SwiftSchedule

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        come_close: float = 0.1,
        n_targets: int = 3,
        detector_queries: int = 200,
        n_queries: int = 5000,
    ):
        super().__init__(epsilon, norm)
        check_at_least(0, come_close=come_close)
        self.come_close, self.n_targets = float(come_close), int(n_targets)
        self.detector_queries, self.n_queries = int(detector_queries), int(n_queries)
        detector = SquareDetector(epsilon, norm, n_queries=detector_queries)
        square = Square(epsilon, norm, n_queries=n_queries)
        targeted = APGDT(epsilon, norm, n_targets=n_targets)
        self.compose([ConstraintRelaxation(epsilon, norm), targeted, detector, square])

    def craft(self, victim: Victim, x, y, ids, seed):
        """The short form, for validation: `cr` with one start per target, without the other stages."""
        return self.attacks[0].craft(victim, x, y, ids, seed)

    def shortcomings(self, victim: Victim) -> list[str]:
        told = (
            "This is 'swift', not AutoAttack: a cascade with fewer passes. Use 'autoattack' for a number to "
            "publish."
        )
        return [told, *super().shortcomings(victim)]

    def suspicions(self, result: AttackResult) -> list[str]:
        """What the detector found."""
        suspects = misled(result)
        if not suspects.any():
            return []
        stages = {stage.name: stage for stage in result.stages}
        before, detected, after = (
            int(result.robust_after(stages[name]).sum()) for name in (APGD_T, DETECTOR, SQUARE)
        )
        return [
            f"Square came much closer than the gradient attacks on {int(suspects.sum())} images within "
            f"{self.detector_queries} queries and broke {before - detected} of them: gradients mislead "
            f"there. It went on with {self.n_queries} queries and broke {detected - after} more."
        ]


class MarginSchedule(Schedule):
    """An image remembers the smallest margin that it reached."""

    def memory_columns(self, victim: Victim) -> int:
        return 1


class SquareDetector(Square):
    """Square with few queries that remembers the smallest margin it reached: the detector of `swift`.

    Example:

    >>> SquareDetector(epsilon=8 / 255, n_queries=200).name
    'square-detector'

    Args:
        **kwargs: Those of `Square`. One of the queries measures the margin.
    """

    name = DETECTOR
    schedule_class = MarginSchedule

    def costs(self, victim: Victim) -> Costs:
        return super().costs(victim)._replace(before=(1, 0))  # the query that measures the margin

    def run_round(self, victim: Victim, x, y, ids, seed, round_index, memory=None) -> RoundResult:
        """A search, and the margin where it ended."""
        found = super().run_round(victim, x, y, ids, seed, round_index)
        reached = -losses.margin(victim.logits(found.x_adv), y)
        return found._replace(memory=reached[:, tf.newaxis])
