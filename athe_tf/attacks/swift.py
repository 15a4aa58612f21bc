"""Swift: a cascade for every day, at about a tenth of AutoAttack's passes. It is not AutoAttack."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.apgd import APGD, APGDT
from athe_tf.attacks.black_box import BlackBoxAttack
from athe_tf.attacks.cascade import Cascade, CascadeSchedule
from athe_tf.attacks.constraint_relaxation import ConstraintRelaxation, came_close, closest_margin, distances
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import AttackResult, Costs, RoundResult
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.fab import TargetedFAB
from athe_tf.attacks.square import Square
from athe_tf.attacks.targets import TargetSchedule
from athe_tf.models.victim import Victim
from athe_tf.results.notices import Notice

# The detector's margin, as a share of the gradient attacks', below which gradients mislead.
MISLED = 0.75
# The share of the images that the detector saw, and their number, beyond which there is a warning.
SUSPICIOUS, FEW = 0.02, 2
# In l2 and l1: the share below which the detector has another look, and its queries then.
DOUBTFUL, MORE_QUERIES = 0.9, 1000
CR, APGD_T, DETECTOR, SQUARE = "cr", "apgd-t", "square-detector", "square"
FAB_T, MORE_STARTS, SECOND_LOOK = "fab-t", "apgd-ce-restarts", "square-second-look"
# In l2: FAB-T is for images whose boundary, linearized, came closer than this in `cr`, in epsilons.
FAB_REACH = 0.5
FAB_STEPS, FAB_TARGETS = 30, 9
# In l1: steps of the first two attacks; how close FAB-T, in epsilons, comes to images that get the last one,
# and its steps and starts.
SPARSE_STEPS, SPARSE_REACH, LAST_STEPS, LAST_STARTS = 30, 1.25, 100, 4


class SwiftSchedule(CascadeSchedule):
    """Which images go on to which stage, decided for each image alone."""

    def eligible_images(self, member, result: AttackResult) -> np.ndarray | None:
        attack = self.attack
        if member.name == SQUARE:
            return misled(result)
        if member.name == SECOND_LOOK:
            return misled(result, DOUBTFUL)
        if member.name == MORE_STARTS:
            return result.norm < SPARSE_REACH * attack.epsilon
        if member.name == APGD_T and CR in result.memory:
            return came_close(result.memory[CR], attack.come_close)
        if member.name == FAB_T and CR in result.memory:
            return distances(result.memory[CR]).min(axis=1) < FAB_REACH
        return None

    def craft_passes(self, victim: Victim) -> float:
        first = self.attack.attacks[0]
        return first.schedule.craft_passes(victim)


def misled(result: AttackResult, share: float = MISLED) -> np.ndarray:
    """Images for which a few random queries reached a much smaller margin than gradient attacks."""
    stage = next(stage for stage in result.stages if stage.name == DETECTOR)
    looks = [result.memory[name][:, 0] for name in (DETECTOR, SECOND_LOOK) if name in result.memory]
    gradients = CR if CR in result.memory else APGD_T
    seen = result.rounds >= stage.end
    return seen & (np.min(looks, axis=0) < share * closest_margin(result.memory[gradients]))


class Swift(Cascade):
    """Constraint relaxation, APGD-T where it came close, and a short Square that detects masked gradients.

    | stage | images |
    |---|---|
    | `cr` | all |
    | `apgd-t` | survivors whose boundary came closer than `come_close` |
    | `fab-t` | in l2 only: survivors whose boundary came closer than half of epsilon |
    | `square-detector` | all survivors, with `detector_queries` |
    | `square-second-look` | in l2 only: if the detector's margin is a tenth below `cr`'s, 1,000 queries |
    | `square` | survivors for which it reached a margin a quarter below `cr`'s |

    In l1 an attack of the form of `cr` is weak. There the first stages are `apgd-ce` and `apgd-t` with 30
    steps, beginning in larger balls, and `fab-t` on all survivors; then `apgd-ce-restarts`, four starts
    of 100 steps for images to which `fab-t` came closer than 1.25 epsilon, and Square as in l2.

    The margin that Square reaches within a few hundred queries is far from what gradients reach, unless
    gradients mislead: then random search is stronger. On such images, and only there, Square goes on with
    `n_queries`, and the notes of the result say so. Every decision is one of the image alone, so the result
    depends neither on the batch nor on which other images are attacked.

    For validation during training, calling it gives a short form that is compiled as one graph and runs on
    every replica: the first stage, `cr` with one start per target, without the others.

    **This is not AutoAttack**: use it every day, and AutoAttack for a number to publish. The notes of every
    result say so.

    Example:

    >>> attack = athe_tf.attacks.Swift(epsilon=8 / 255)
    >>> result = attack.run(model, x, y, state="swift.npz")
    >>> table = attack.table(result)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default), `"l2"` or `"l1"`.
        come_close: Images whose smallest distance to a boundary in `cr`, linearized and in epsilons, is below
            this go on to `apgd-t`; so do those that keep less of their clean margin than a linear model would
            at that distance, an eleventh for 0.1. Defaults to 0.1. In l1 all survivors do.
        n_targets: Targets of `apgd-t`. Defaults to 3.
        detector_queries: Queries of the detector. Defaults to 200.
        n_queries: Queries of Square where gradients mislead. Defaults to 5000.
    """

    name = "swift"
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
        self.compose([*self._gradient_stages(), *self._square_stages()])

    def _gradient_stages(self) -> list[Attack]:
        ball = (self.epsilon, self.norm)
        if math.isinf(self.threat.order):
            return [ConstraintRelaxation(*ball), APGDT(*ball, n_targets=self.n_targets)]
        fab = TargetedFAB(
            *ball, steps=FAB_STEPS, n_targets=FAB_TARGETS, reuse_passes=True, stop_on_success=True
        )
        if not self.threat.sparse:
            return [ConstraintRelaxation(*ball), APGDT(*ball, n_targets=self.n_targets), fab]
        sparse: dict[str, Any] = {"steps": SPARSE_STEPS, "larger_epsilon": True}
        again = APGD(*ball, steps=LAST_STEPS, restarts=LAST_STARTS, larger_epsilon=True)
        again.name = MORE_STARTS
        return [APGD(*ball, **sparse), MarginAPGDT(*ball, n_targets=self.n_targets, **sparse), fab, again]

    def _square_stages(self) -> list[Attack]:
        ball = (self.epsilon, self.norm)
        stages = [SquareDetector(*ball, n_queries=self.detector_queries)]
        if not math.isinf(self.threat.order):
            stages.append(SquareDetector(*ball, n_queries=MORE_QUERIES))
            stages[-1].name = SECOND_LOOK
        return [*stages, Square(*ball, n_queries=self.n_queries)]

    def craft(self, victim: Victim, x, y, ids, seed):
        """The short form, for validation: the first stage, `cr` with one start per target."""
        return self.attacks[0].craft(victim, x, y, ids, seed)

    def shortcomings(self, victim: Victim) -> list[str]:
        told = (
            "This is 'swift', not AutoAttack: a cascade with fewer passes. Use 'autoattack' for a number to "
            "publish."
        )
        return [told, *super().shortcomings(victim)]

    def suspicions(self, result: AttackResult) -> list[str]:
        """A warning if gradients mislead on more images than they do on any model."""
        suspects = misled(result)
        names = [stage.name for stage in result.stages]
        first = names.index(DETECTOR)
        before, detected, after = (
            int(result.robust_after(result.stages[index]).sum()) for index in (first - 1, -2, -1)
        )
        seen = int((result.rounds >= result.stages[first].end).sum())
        if max(int(suspects.sum()), before - after) <= max(SUSPICIOUS * seen, FEW):
            return []
        text = (
            f"Square came much closer than the gradient attacks on {int(suspects.sum())} of {seen} images in "
            f"{self.detector_queries} queries and broke {before - detected}: gradients mislead there. It "
            f"went on with {self.n_queries} queries and broke {detected - after} more. The accuracy may "
            "still be too high: look for what masks the gradients, and attack through it by a gradient "
            "source, athe_tf.attacks.Victim(source=...), or with adversarial examples of another model."
        )
        return [Notice(text, id="misleading-gradients")]


class MarginSchedule(Schedule):
    """An image remembers the smallest margin that it reached."""

    def memory_columns(self, victim: Victim) -> int:
        return 1


class MarginTargetSchedule(MarginSchedule, TargetSchedule):
    """The same for an attack whose rounds are targets."""


class MarginMemory(Attack):
    """Remembers the margin `z_y - max z_j` where each round ended, for one more query. A mixin."""

    schedule_class: type[Schedule] = MarginSchedule

    def costs(self, victim: Victim) -> Costs:
        costs = super().costs(victim)
        return costs._replace(before=(costs.before[0] + 1, costs.before[1]))

    def run_round(self, victim: Victim, x, y, ids, seed, round_index, memory=None) -> RoundResult:
        """A round, and the margin where it ended."""
        found = super().run_round(victim, x, y, ids, seed, round_index)
        seen = victim if isinstance(self, BlackBoxAttack) else victim.source
        return found._replace(memory=-losses.margin(seen.logits(found.x_adv), y)[:, tf.newaxis])


class MarginAPGDT(MarginMemory, APGDT):
    """APGD-T that remembers the smallest margin it reached: in l1, what the detector is compared with.

    Args:
        **kwargs: Those of `APGDT`.
    """

    schedule_class = MarginTargetSchedule


class SquareDetector(MarginMemory, Square):
    """Square with few queries that remembers the smallest margin it reached: the detector of `swift`.

    Example:

    >>> SquareDetector(epsilon=8 / 255, n_queries=200).name
    'square-detector'

    Args:
        **kwargs: Those of `Square`. One of the queries measures the margin.
    """

    name = DETECTOR
