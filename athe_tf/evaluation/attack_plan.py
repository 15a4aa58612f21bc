"""From what was asked for to the attacks that will be run."""

import dataclasses
from collections.abc import Sequence

from athe_tf import attacks as attack_names
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.heads import head_of
from athe_tf.evaluation.protocols import Line, Protocol
from athe_tf.utils.errors import InputError, NotApplicable, check
from athe_tf.utils.number_format import format_number

# The m of the hypersphere-embedding paper, where nobody says which one a model was trained with.
USUAL_MARGIN = 0.2


@dataclasses.dataclass
class Planned:
    """An attack that will be run, or the reason why not.

    Attributes:
        label: How the report calls it; every label is there once.
        attack: The attack.
        limit: Attack the first so many images only.
        note: What the report says about it.
        hypersphere: Needs a hypersphere head.
        reason: Why it will not be run.
    """

    label: str
    attack: Attack | None
    limit: int | None = None
    note: str | None = None
    hypersphere: bool = False
    reason: str | None = None

    def check(self, target: Victim) -> None:
        """Finds out whether the attack can be run on a model, before hours were spent on others."""
        if self.attack is None:
            return
        try:
            if self.hypersphere and head_of(target) == "linear":
                raise NotApplicable(f"it needs a hypersphere head, and '{target.name}' has none.")
            self.attack.check_victim(target)
            for stage in self.attack.cascade(target):
                stage.check_victim(target)
        except NotApplicable as error:
            self.reason = str(error)


def make_plan(
    wanted: Sequence, epsilon: float, norm: str, *, protocol: Protocol | None, epsilons=(), margin=None
) -> list[Planned]:
    """The attacks of an evaluation.

    Args:
        wanted: Names, `Attack` objects, `Line`s of a protocol.
        epsilon: The radius of the report.
        norm: Its norm.
        protocol: Where the lines come from.
        epsilons: Further radii. `Attack` objects keep their own.
        margin: The margin of training, for adaptive attacks.
    """
    lines = [Line(item) if isinstance(item, str) else item for item in wanted]
    radii = [epsilon, *sorted(set(epsilons) - {epsilon})]
    published = protocol.epsilon if protocol else None
    plan = []
    for line in lines:
        if isinstance(line, Attack):
            plan.append(Planned(_at(line.name, line.threat.epsilon, epsilon), line))
            continue
        if not isinstance(line, Line):
            raise InputError(f"Expected the name of an attack or an Attack. Received: {line!r}.")
        for radius in radii:
            plan.append(_planned(line, radius, epsilon, norm, published, margin))
    for item, label in zip(plan, _distinct([item.label for item in plan]), strict=True):
        item.label = label
    return plan


def _planned(line: Line, radius, epsilon, norm, published, margin) -> Planned:
    label = _at(line.label or line.attack, radius, epsilon)
    known = attack_names.ATTACKS.get(attack_names.parse_name(line.attack)[0]).norms
    if norm not in known:
        return Planned(label, None, reason=f"it exists in {', '.join(known)} only, not in {norm}.")
    settings = dict(line.settings)
    if line.step is not None:
        settings["step_size"] = line.step if published is None else line.step * (radius / published)
    if line.hypersphere:
        settings["margin"] = USUAL_MARGIN if margin is None else margin
    attack = attack_names.get(line.attack, epsilon=radius, norm=norm, **settings)
    return Planned(label, attack, line.limit, line.note, line.hypersphere)


def _at(label: str, radius: float, epsilon: float) -> str:
    return label if radius == epsilon else f"{label} @ {format_number(radius)}"


def _distinct(labels: list[str]) -> list[str]:
    """Labels with a number where several are alike."""
    return [
        label if label not in labels[:i] else f"{label} ({labels[: i + 1].count(label)})"
        for i, label in enumerate(labels)
    ]


def within(attack: Attack, norm: str, epsilon: float) -> bool:
    """Whether an attack stays within a threat model, so that its verdicts may count for it."""
    return attack.in_ball and attack.threat.norm == norm and attack.threat.epsilon <= epsilon + 1e-9


def check_epsilons(norm: str, epsilons) -> None:
    """Refuses radii that are no radii."""
    for radius in epsilons:
        check(
            radius > 0,
            f"The radii of a curve must be larger than 0. Received: {format_number(radius)}. "
            "The clean accuracy is part of every curve.",
        )
