"""From the attacks that a user asks for to the attacks that will be run."""

import dataclasses
from collections.abc import Sequence

from athe_tf import attacks as attack_names
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.schedule import schedule_of
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.measures import head_of
from athe_tf.evaluation.protocols import AttackSpec, at_scale
from athe_tf.results.result import AttackOutcome
from athe_tf.utils.errors import InputError, NotApplicable
from athe_tf.utils.number_format import format_number


@dataclasses.dataclass
class PlannedAttack:
    """An attack that will be run, or the reason why not.

    Attributes:
        label: Its name in the result; labels are unique.
        attack: The attack.
        limit: Attack only the first images, at most this many.
        note: A remark in the result.
        hypersphere: Whether it needs a hypersphere head.
        equals: The label of an earlier attack that provably finds the same; its result is copied.
        not_run: Why it will not be run.
    """

    label: str
    attack: Attack | None
    limit: int | None = None
    note: str | None = None
    hypersphere: bool = False
    equals: str | None = None
    not_run: str | None = None

    def check(self, victim: Victim) -> None:
        """Finds out whether the attack can be run on a model, before hours are spent on others."""
        if self.attack is None:
            return
        try:
            if self.hypersphere and head_of(victim) in ("linear", "ensemble", "unknown"):
                raise NotApplicable(f"it needs a hypersphere head, and '{victim.name}' has none.")
            self.attack.check_victim(victim)
            for member in schedule_of(self.attack).members(victim):
                member.check_victim(victim)
        except NotApplicable as error:
            self.not_run = str(error)

    def copied(self, same: AttackOutcome) -> AttackOutcome:
        """The outcome of this attack, from that of an attack that provably finds the same."""
        if self.attack is None or self.not_run is not None or same.robust is None:
            return AttackOutcome(self.label, None, not_run=self.not_run or same.not_run)
        return dataclasses.replace(
            same,
            name=self.label,
            settings=self.attack.settings(),
            remarks=[] if self.note is None else [self.note],
            seconds=0.0,
            queries=0,
            gradients=0,
            nonfinite=0,
            stages=[],
            examples={},
        )


def make_plan(
    wanted: Sequence,
    epsilon: float,
    norm: str,
    *,
    published: float | None = None,
    epsilons=(),
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
        margin: The margin of training, for adaptive attacks. Defaults to 0.
        logit_scale: The scale of the logits for attacks that have none of their own. Defaults to `"model"`.
    """
    plan = []
    for item in wanted:
        if isinstance(item, Attack):
            plan.append(PlannedAttack(_at(item.name, item.threat.epsilon, epsilon), item))
            continue
        spec = AttackSpec(item) if isinstance(item, str) else item
        if not isinstance(spec, AttackSpec):
            raise InputError(f"Expected the name of an attack or an Attack. Received: {item!r}.")
        for radius in [epsilon, *sorted(set(epsilons) - {epsilon})]:
            own = radius if spec.epsilon is None or published is None else spec.epsilon * radius / published
            planned = _planned(spec, own, norm, published, margin, logit_scale)
            planned.label = _at(planned.label, own, epsilon)
            planned.equals = planned.equals and _at(planned.equals, own, epsilon)
            plan.append(planned)
    for planned, label in zip(plan, _distinct([planned.label for planned in plan]), strict=True):
        planned.label = label
    return plan


def _planned(
    spec: AttackSpec, radius: float, norm: str, published: float | None, margin: float, logit_scale
) -> PlannedAttack:
    attack_class = attack_names.ATTACKS.get(attack_names.parse_name(spec.attack)[0])
    label, norms = spec.label or spec.attack, attack_class.norms
    if norm not in norms:
        return PlannedAttack(label, None, not_run=f"it exists in {', '.join(norms)} only, not in {norm}.")
    settings = dict(spec.settings)
    if logit_scale != "model" and attack_class.depends_on_scale and "logit_scale" not in settings:
        settings["logit_scale"] = logit_scale
        label = at_scale(label, logit_scale)
    if spec.step_size is not None:
        settings["step_size"] = spec.step_size * (1.0 if published is None else radius / published)
    if spec.hypersphere:
        settings["margin"] = margin
    attack = attack_names.get(spec.attack, epsilon=radius, norm=norm, **settings)
    return PlannedAttack(label, attack, spec.limit, spec.note, spec.hypersphere, spec.equals)


def _at(label: str, radius: float, epsilon: float) -> str:
    return label if radius == epsilon else f"{label} @ {format_number(radius)}"


def _distinct(labels: list[str]) -> list[str]:
    """Labels with a number if several are equal."""
    return [
        label if label not in labels[:i] else f"{label} ({labels[: i + 1].count(label)})"
        for i, label in enumerate(labels)
    ]
