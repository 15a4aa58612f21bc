"""Runs the attacks of an evaluation, or reads back what they found before an interruption."""

import dataclasses
import time
from collections.abc import Callable

from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.evaluation.attack_plan import PlannedAttack
from athe_tf.evaluation.examples import examples_of
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.progress import EvaluationProgress
from athe_tf.evaluation.result import AttackOutcome
from athe_tf.evaluation.state_folder import StateFolder
from athe_tf.utils.errors import NotApplicable


@dataclasses.dataclass
class AttackRunner:
    """Runs planned attacks, or reads back what they found before an interruption."""

    inputs: EvaluationInputs
    state: StateFolder | None = None
    progress: Callable | None = None
    max_passes: int | None = None

    def run(self, planned: PlannedAttack, number: int, attacks: int) -> AttackOutcome:
        """What one attack found; if it cannot be run on this victim, the outcome says why."""
        attack, count = planned.attack, len(self.inputs.images)
        if attack is None or planned.not_run is not None:
            return AttackOutcome(planned.label, None, not_run=planned.not_run)
        limit = count if planned.limit is None else min(planned.limit, count)
        settings = attack.settings() | ({"images": limit} if limit < count else {})
        settings |= {} if self.max_passes is None else {"max_passes": self.max_passes}
        outcome = None if self.state is None else self.state.load(planned.label, settings, limit)
        if outcome is None:
            try:
                outcome = self._run(planned, limit, settings, (number, attacks))
            except NotApplicable as error:
                return AttackOutcome(planned.label, None, not_run=str(error))
            if self.state is not None:
                self.state.save(outcome)
        epsilon, norm = float(attack.threat.epsilon), attack.threat.norm
        outcome.epsilon, outcome.norm, outcome.in_ball = epsilon, norm, attack.in_ball
        within = norm == self.inputs.norm and epsilon <= self.inputs.epsilon + 1e-9
        outcome.in_worst_case = attack.in_ball and within
        outcome.minimum_norm = isinstance(attack, MinimumNormAttack)
        if planned.note is not None:
            outcome.remarks = [planned.note, *outcome.remarks]
        return outcome

    def _run(self, planned: PlannedAttack, limit: int, settings: dict, position) -> AttackOutcome:
        assert planned.attack is not None
        began = time.perf_counter()
        result = self.inputs.run(
            planned.attack,
            slice(limit),
            progress=self._observer(planned.label, position, limit),
            state=None if self.state is None else self.state.unfinished(planned.label),
            max_passes=self.max_passes,
        )
        return AttackOutcome(
            planned.label,
            robust=~result.success,
            # After a resume, the stages remember more time than this process has seen.
            seconds=max(time.perf_counter() - began, sum(stage.seconds for stage in result.stages)),
            queries=int(result.queries.sum()),
            gradients=int(result.gradients.sum()),
            nonfinite=int(result.nonfinite.sum()),
            norms=result.norm,
            settings=settings,
            stages=_accuracy_after_stages(result),
            remarks=list(result.notes),
            # Only a few adversarial examples are kept, so that memory does not grow with the attacks.
            examples=examples_of(result, self.inputs, planned.label),
        )

    def _observer(self, label: str, position: tuple[int, int], examples: int):
        if self.progress is None:
            return None
        tell, (number, attacks) = self.progress, position
        return lambda done, total, robust: tell(
            EvaluationProgress(label, number, attacks, done, total, robust, examples)
        )


def _accuracy_after_stages(result: AttackResult) -> list[dict]:
    """The accuracy after each attack of a cascade; empty for a single attack."""
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
