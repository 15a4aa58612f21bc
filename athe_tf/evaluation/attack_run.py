"""One attack of an evaluation: run, or read back, and put into a line of the report."""

import dataclasses
import time
from collections.abc import Callable

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.evaluation.attack_plan import Planned, within
from athe_tf.evaluation.examples import examples_of
from athe_tf.evaluation.inputs import Case
from athe_tf.evaluation.result import AttackReport
from athe_tf.evaluation.state_folder import StateFolder
from athe_tf.utils.errors import NotApplicable


@dataclasses.dataclass
class Progress:
    """Where an evaluation stands; what a `progress` function is called with.

    Attributes:
        attack: The label of the attack, or what else is going on.
        number: Its place among all attacks, from 1.
        attacks: How many there are.
        done: Passes of the network done in this attack.
        most: Passes in all, if no further image falls.
        robust: Images that still stand.
        examples: Images in all.
    """

    attack: str
    number: int
    attacks: int
    done: float
    most: float
    robust: int
    examples: int

    @property
    def accuracy(self) -> float:
        """The accuracy if no further image fell."""
        return self.robust / self.examples


@dataclasses.dataclass
class Runner:
    """Runs planned attacks, or reads back what they found before an interruption."""

    case: Case
    state: StateFolder | None = None
    progress: Callable | None = None

    def run(self, planned: Planned, number: int, attacks: int) -> AttackReport:
        """One line of the report; an attack that cannot be run on this victim says so in it."""
        attack = planned.attack
        if attack is None or planned.reason is not None:
            return AttackReport(planned.label, None, reason=planned.reason)
        count = len(self.case.images)
        limit = count if planned.limit is None else min(planned.limit, count)
        settings = attack.settings() | ({"images": limit} if limit < count else {})
        line = None if self.state is None else self.state.load(planned.label, settings)
        if line is None:
            try:
                line = self._run(attack, planned.label, limit, settings, (number, attacks))
            except NotApplicable as error:
                return AttackReport(planned.label, None, reason=str(error))
            if self.state is not None:
                self.state.save(line)
        line.counts = within(attack, self.case.norm, self.case.epsilon)
        line.epsilon, line.norm = float(attack.threat.epsilon), attack.threat.norm
        line.in_ball = attack.in_ball
        line.least_norm = isinstance(attack, MinimumNormAttack)
        if planned.note is not None:
            line.remarks = [planned.note, *line.remarks]
        return line

    def _run(
        self, attack: Attack, label: str, limit: int, settings: dict, place: tuple[int, int]
    ) -> AttackReport:
        began = time.perf_counter()
        target, images, labels = self.case.target, self.case.images[:limit], self.case.labels[:limit]
        result = attack.run(
            target,
            images,
            labels,
            seed=self.case.seed,
            batch_size=self.case.batch_size,
            progress=self._observer(label, place, limit),
            state=None if self.state is None else self.state.under_way(label),
        )
        passed = sum(stage.seconds for stage in result.stages)
        return AttackReport(
            label,
            robust=~result.success,
            # After a resume the stages remember more time than this process saw.
            seconds=max(time.perf_counter() - began, passed),
            queries=int(result.queries.sum()),
            gradients=int(result.gradients.sum()),
            nonfinite=int(result.nonfinite.sum()),
            norms=result.norm,
            settings=settings,
            stages=_stages(result),
            remarks=list(result.notes),
            # The adversarial images themselves are let go of: memory does not grow with the attacks.
            shown=examples_of(target, result, images, labels, label),
        )

    def _observer(self, label: str, place: tuple[int, int], examples: int):
        if self.progress is None:
            return None
        tell, (number, attacks) = self.progress, place
        return lambda done, most, robust: tell(Progress(label, number, attacks, done, most, robust, examples))


def _stages(result: AttackResult) -> list[dict]:
    if len(result.stages) < 2:
        return []
    return [
        {
            "name": stage.name,
            "accuracy": float(result.robust_after(stage).mean()),
            "seconds": round(stage.seconds, 2),
        }
        for stage in result.stages
    ]
