"""From the attacks that a user asks for to what they found, now or before an interruption."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from athe_tf import attacks as attack_names
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import add_stages, remarks
from athe_tf.attacks.engine.results import AttackResult
from athe_tf.attacks.minimum_norm import MinimumNormAttack
from athe_tf.evaluation.adversarial_examples import examples_of, still_adversarial, with_nan_logits
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.evaluation.measures import head_of
from athe_tf.evaluation.protocols import AttackSpec, at_scale
from athe_tf.evaluation.state_folder import FinishedAttack, MergedState, StateFolder
from athe_tf.jobs.shard import WHOLE, Shard
from athe_tf.models.victim import Victim
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.result import EIGHT_BIT_ATTACK, Result
from athe_tf.utils.errors import InputError, NotApplicable, check
from athe_tf.utils.number_format import format_number

EIGHT_BIT_NOTE = (
    "attacked only the images whose adversarial examples are lost by rounding to 8 bits; the accuracy is "
    "that of 8-bit images"
)


@dataclasses.dataclass
class PlannedAttack:
    """An attack that will be run, or the reason why not.

    Attributes:
        label: Its name in the result; labels are unique.
        attack: The attack; `None` if it does not exist in the norm of the evaluation.
        spec: What the protocol says about it, with the label that `equals` has at its radius.
        not_run: Why it will not be run.
    """

    label: str
    attack: Attack | None
    spec: AttackSpec
    not_run: str | None = None

    @property
    def notes(self) -> list[str]:
        """The protocol's remark about the attack, if there is one."""
        return [] if self.spec.note is None else [self.spec.note]

    def check(self, victim: Victim) -> None:
        """Finds out whether the attack can be run on a model, before hours are spent on others."""
        if self.attack is None:
            return
        try:
            if self.spec.hypersphere and head_of(victim) in ("linear", "ensemble", "unknown"):
                raise NotApplicable(f"it needs a hypersphere head, and '{victim.name}' has none.")
            self.attack.check_victim(victim)
            for member in self.attack.schedule.members(victim):
                member.check_victim(victim)
        except NotApplicable as error:
            self.not_run = str(error)

    def copied(self, same: AttackOutcome) -> AttackOutcome:
        """The outcome of this attack, copied from an attack that provably finds the same."""
        if self.attack is None or self.not_run is not None or same.robust is None:
            return AttackOutcome(self.label, None, not_run=self.not_run or same.not_run)
        return dataclasses.replace(
            same, name=self.label, settings=self.attack.settings(), remarks=self.notes,
            seconds=0.0, queries=0, gradients=0, nonfinite=0, stages=[], examples={},
        )  # fmt: skip


def make_plan(
    wanted: Sequence,
    epsilon: float,
    norm: str,
    *,
    published: float | None = None,
    epsilons=(),
    others: Sequence[tuple[str, float]] = (),
    margin: float = 0.0,
    logit_scale: float | str = "model",
) -> list[PlannedAttack]:
    """The attacks of an evaluation.

    Args:
        wanted: Names, `Attack` objects, or the `AttackSpec`s of a protocol.
        epsilon: The radius of the evaluation.
        norm: Its norm.
        published: The radius that the step sizes of a protocol belong to.
        epsilons: Further radii. `Attack` objects keep their own.
        others: Further norms, with their radii. `Attack` objects keep their own.
        margin: The margin of training, for adaptive attacks. Defaults to 0.
        logit_scale: The scale of the logits for attacks that have none of their own. Defaults to `"model"`.
    """
    plan = []
    for item in wanted:
        if isinstance(item, Attack):
            label = _at(item.name, item.threat.epsilon, epsilon)
            plan.append(PlannedAttack(label, item, AttackSpec(item.name)))
            continue
        spec = AttackSpec(item) if isinstance(item, str) else item
        if not isinstance(spec, AttackSpec):
            raise InputError(f"Expected the name of an attack or an Attack. Received: {item!r}.")
        in_norm = [(norm, radius) for radius in [epsilon, *sorted(set(epsilons) - {epsilon})]]
        for where, radius in [*in_norm, *others]:
            relative = spec.epsilon is not None and published is not None and where == norm
            own = spec.epsilon * radius / published if relative else radius  # type: ignore[operator]
            suffix = "" if where == norm else f" ({where})"
            here = dataclasses.replace(spec, equals=spec.equals and _at(spec.equals + suffix, own, epsilon))
            planned = _planned(here, own, where, published, margin, logit_scale)
            planned.label = _at(planned.label + suffix, own, epsilon)
            plan.append(planned)
    for planned, label in zip(plan, _distinct([planned.label for planned in plan]), strict=True):
        planned.label = label
        _refuse_targeted(planned.attack)
    return plan


def _refuse_targeted(attack: Attack | None) -> None:
    """Raises `InputError` for a targeted attack, also inside a cascade or another attack."""
    if attack is None:
        return
    check(
        not attack.targeted,
        f"The attack '{attack.name}' is targeted. Expected untargeted attacks: a targeted one reaches "
        "classes, and the robust accuracy counts images that keep their class. Use the untargeted attack, or "
        "`Attack.run` with the classes to reach.",
    )
    for inside in vars(attack).values():
        for one in inside if isinstance(inside, (list, tuple)) else [inside]:
            _refuse_targeted(one if isinstance(one, Attack) else None)


def _planned(
    spec: AttackSpec, radius: float, norm: str, published: float | None, margin: float, logit_scale
) -> PlannedAttack:
    attack_class = attack_names.ATTACKS.get(attack_names.parse_name(spec.attack)[0])
    label, norms = spec.label or spec.attack, attack_class.norms
    if norm not in norms:
        return PlannedAttack(label, None, spec, f"it exists in {', '.join(norms)} only, not in {norm}.")
    settings = dict(spec.settings)
    if logit_scale != "model" and attack_class.depends_on_scale and "logit_scale" not in settings:
        settings["logit_scale"] = logit_scale
        label = at_scale(label, logit_scale)
    if spec.step_size is not None:
        settings["step_size"] = spec.step_size * (1.0 if published is None else radius / published)
    if spec.hypersphere:
        settings["margin"] = margin
    attack = attack_names.get(spec.attack, epsilon=radius, norm=norm, **settings)
    return PlannedAttack(label, attack, spec)


def _at(label: str, radius: float, epsilon: float) -> str:
    return label if radius == epsilon else f"{label} @ {format_number(radius)}"


def _distinct(labels: list[str]) -> list[str]:
    """Labels with a number if several are equal."""
    return [
        label if label not in labels[:i] else f"{label} ({labels[: i + 1].count(label)})"
        for i, label in enumerate(labels)
    ]


@dataclasses.dataclass
class AttackRunner:
    """Runs planned attacks, or reads back what they found before an interruption or in several shards."""

    inputs: EvaluationInputs
    state: StateFolder | MergedState | None = None
    max_passes: int | None = None
    shard: Shard = WHOLE
    jit_compile: bool = False

    def run(self, planned: PlannedAttack, tell: Callable | None = None) -> AttackOutcome:
        """What one attack found; if it cannot be run on this victim, the outcome says why.

        `tell` is called after every batch with `(done, total, robust, examples)`.
        """
        attack, count = planned.attack, len(self.inputs.images)
        if attack is None or planned.not_run is not None:
            return AttackOutcome(planned.label, None, not_run=planned.not_run)
        limit = count if planned.spec.limit is None else min(planned.spec.limit, count)
        settings = attack.settings() | ({"images": limit} if limit < count else {})
        settings |= {} if self.max_passes is None else {"max_passes": self.max_passes}
        rows = self.shard.rows(limit)
        finished: FinishedAttack | None = None
        if self.state is not None:
            finished = self.state.load(planned.label, settings, self._before(attack, rows))
        if finished is None:
            finished = self._run(planned, limit, rows, tell)
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
        add_stages(result, attack.schedule.members(victim), victim, self.max_passes)
        return result

    def _run(self, planned: PlannedAttack, limit: int, rows: np.ndarray, tell) -> FinishedAttack:
        assert planned.attack is not None
        began = time.perf_counter()
        try:
            result = self.inputs.run(
                planned.attack,
                rows,
                among=slice(limit),
                progress=tell and (lambda *numbers: tell(*numbers, len(rows))),
                state=self.state.unfinished(planned.label) if isinstance(self.state, StateFolder) else None,
                max_passes=self.max_passes,
                jit_compile=self.jit_compile,
            )
        except NotApplicable as error:
            return FinishedAttack(not_run=str(error))
        broken_passes = self.inputs.judged(result, rows)
        # After a resume, the stages remember more time than this process has seen.
        seconds = max(time.perf_counter() - began, sum(stage.seconds for stage in result.stages))
        # Only a few adversarial examples are kept, so that memory does not grow with the attacks.
        examples = examples_of(result, rows, self.inputs, planned.label)
        eight_bit = still_adversarial(result, rows, planned.attack, self.inputs)
        nan_logits = with_nan_logits(result, self.inputs)
        without_images = dataclasses.replace(result, x_adv=result.x_adv[:0].copy())
        return FinishedAttack(without_images, eight_bit, nan_logits, seconds, examples, broken_passes)

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
            gradient_faults=result.gradient_faults,
            nan_logits=int(finished.nan_logits.sum()),
            broken_passes=finished.broken_passes,
            norms=result.norm,
            eight_bit=finished.eight_bit,
            settings=settings,
            in_worst_case=attack.in_ball and within,
            epsilon=epsilon,
            norm=norm,
            in_ball=attack.in_ball,
            minimum_norm=isinstance(attack, MinimumNormAttack),
            stages=_accuracy_after_stages(result),
            remarks=[*planned.notes, *told],
            examples=finished.examples,
        )


def attack_eight_bits(result: Result, runner: AttackRunner) -> AttackOutcome | None:
    """Attacks, among 8-bit images, those whose adversarial examples rounding loses.

    Returns `None` where it cannot be run: in other norms, without gradients, if the images themselves are not
    8-bit images. The accuracy of the outcome is that of 8-bit images: no adversarial example is left after
    rounding, and none is found.
    """
    inputs, victim = runner.inputs, runner.inputs.victim
    rows = runner.shard.rows(len(inputs.images))
    part = result.of_images(rows, "")
    lost = np.zeros(len(inputs.images), bool)
    lost[rows] = part.lost_by_rounding
    # A shard does not know whether another one has lost some: it keeps a result in any case.
    needed = lost.any() or runner.shard != WHOLE
    if not needed or inputs.norm != "linf" or not result.counted or not inputs.eight_bit:
        return None
    spec = AttackSpec("eight-bit-pgd-40x3", EIGHT_BIT_ATTACK, note=EIGHT_BIT_NOTE)
    (planned,) = make_plan([spec], inputs.epsilon, inputs.norm)
    planned.check(victim)
    assert planned.attack is not None
    budget = runner.max_passes
    if budget is not None and budget <= planned.attack.round_passes(victim):
        return None
    seen = dataclasses.replace(inputs, clean=dataclasses.replace(inputs.clean, correct=lost))
    found = dataclasses.replace(runner, inputs=seen).run(planned)
    if found.robust is None:
        return None
    robust = part.robust_to_rounded & ~found.found
    # The clean pass was not repeated.
    queries = found.queries - len(robust)
    return dataclasses.replace(found, robust=robust, queries=queries, in_worst_case=False)


def _accuracy_after_stages(result: AttackResult) -> list[dict]:
    """The accuracy after each attack of a cascade; empty for a single attack."""
    if len(result.stages) < 2:
        return []
    found = [(one.name, float(result.robust_after(one).mean()), one.seconds) for one in result.stages]
    return [{"name": name, "accuracy": share, "seconds": round(time, 2)} for name, share, time in found]
