"""Runs the attacks of an evaluation, or reads back what they found before an interruption."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import add_stages, remarks
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.engine.schedule import schedule_of
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.evaluation.adversarial_examples import examples_of, still_adversarial
from athe_tf.evaluation.attack_plan import PlannedAttack
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.progress import EvaluationProgress
from athe_tf.evaluation.state_folder import FinishedAttack, MergedState, StateFolder
from athe_tf.jobs.shard import WHOLE, Shard
from athe_tf.results.result import AttackOutcome
from athe_tf.utils.errors import NotApplicable


@dataclasses.dataclass
class AttackRunner:
    """Runs planned attacks, or reads back what they found before an interruption or in several shards."""

    inputs: EvaluationInputs
    state: StateFolder | MergedState | None = None
    progress: Callable | None = None
    max_passes: int | None = None
    shard: Shard = WHOLE

    def run(self, planned: PlannedAttack, number: int, attacks: int) -> AttackOutcome:
        """What one attack found; if it cannot be run on this victim, the outcome says why."""
        attack, count = planned.attack, len(self.inputs.images)
        if attack is None or planned.not_run is not None:
            return AttackOutcome(planned.label, None, not_run=planned.not_run)
        limit = count if planned.limit is None else min(planned.limit, count)
        settings = attack.settings() | ({"images": limit} if limit < count else {})
        settings |= {} if self.max_passes is None else {"max_passes": self.max_passes}
        rows = self.shard.rows(limit)
        finished: FinishedAttack | None = None
        if self.state is not None:
            finished = self.state.load(planned.label, settings, self._before(attack, rows))
        if finished is None:
            finished = self._run(planned, limit, rows, (number, attacks))
            if isinstance(self.state, StateFolder):
                self.state.save(planned.label, settings, finished)
        if finished.result is None:
            return AttackOutcome(planned.label, None, not_run=finished.not_run)
        if not len(rows):
            return AttackOutcome(planned.label, None, not_run="this shard has none of its images.")
        return self._outcome(planned, limit, settings, finished)

    def _before(self, attack: Attack, rows: np.ndarray) -> AttackResult:
        """The result before an attack, without images."""
        result = AttackResult.before(self.inputs.images[:0], ~self.inputs.clean.correct[rows])
        victim = self.inputs.victim
        add_stages(result, schedule_of(attack).members(victim), victim, self.max_passes)
        return result

    def _run(self, planned: PlannedAttack, limit: int, rows: np.ndarray, position) -> FinishedAttack:
        assert planned.attack is not None
        began = time.perf_counter()
        try:
            result = self.inputs.run(
                planned.attack,
                rows,
                among=slice(limit),
                progress=self._observer(planned.label, position, len(rows)),
                state=self.state.unfinished(planned.label) if isinstance(self.state, StateFolder) else None,
                max_passes=self.max_passes,
            )
        except NotApplicable as error:
            return FinishedAttack(not_run=str(error))
        # After a resume, the stages remember more time than this process has seen.
        seconds = max(time.perf_counter() - began, sum(stage.seconds for stage in result.stages))
        # Only a few adversarial examples are kept, so that memory does not grow with the attacks.
        examples = examples_of(result, rows, self.inputs, planned.label)
        eight_bit = still_adversarial(result, rows, planned.attack, self.inputs)
        without_images = dataclasses.replace(result, x_adv=result.x_adv[:0].copy())
        return FinishedAttack(without_images, eight_bit, seconds, examples)

    def _outcome(
        self, planned: PlannedAttack, limit: int, settings: dict, finished: FinishedAttack
    ) -> AttackOutcome:
        """What follows from the results of all images."""
        attack, result = planned.attack, finished.result
        assert attack is not None and result is not None
        epsilon, norm = float(attack.threat.epsilon), attack.threat.norm
        within = norm == self.inputs.norm and epsilon <= self.inputs.epsilon + 1e-9
        about_model = self.inputs.check_model(attack, slice(limit))
        told = remarks(attack, self.inputs.victim, result, self.max_passes, about_model)
        return AttackOutcome(
            planned.label,
            robust=~result.success,
            seconds=finished.seconds,
            queries=int(result.queries.sum()),
            gradients=int(result.gradients.sum()),
            nonfinite=int(result.nonfinite.sum()),
            norms=result.norm,
            eight_bit=finished.eight_bit,
            settings=settings,
            in_worst_case=attack.in_ball and within,
            epsilon=epsilon,
            norm=norm,
            in_ball=attack.in_ball,
            minimum_norm=isinstance(attack, MinimumNormAttack),
            stages=_accuracy_after_stages(result),
            remarks=[*([] if planned.note is None else [planned.note]), *told],
            examples=finished.examples,
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
    found = [(one.name, float(result.robust_after(one).mean()), one.seconds) for one in result.stages]
    return [{"name": name, "accuracy": share, "seconds": round(time, 2)} for name, share, time in found]
