"""The attacks by name, and the options of the one inside training.

Needs no TensorFlow, so that a typo is reported at once.
"""

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from athe_tf.utils import registry
from athe_tf.utils.choices import NORMS, STARTS
from athe_tf.utils.errors import InputError
from athe_tf.utils.options import option
from athe_tf.utils.registry import Registry, is_import_path, unknown_name

if TYPE_CHECKING:
    from athe_tf.attacks.engine.attack import Attack

#: The variants of AutoAttack by name, and the arguments that they stand for.
PRESETS: dict[str, dict] = {
    "autoattack-plus": {"version": "plus"}, "autoattack-rand": {"version": "rand"},
    "autoattack-lite": {"profile": "lite"}, "autoattack-smoke": {"profile": "smoke"},
}  # fmt: skip

ATTACKS = Registry(
    "attack",
    __package__,
    {
        "fgsm": "gradient:FGSM", "bim": "gradient:BIM", "pgd": "gradient:PGD", "mim": "gradient:MIM",
        "pgd-adam": "gradient:AdamPGD",
        "cw-linf": "gradient:CWLinf", "adaptive-pgd": "gradient:AdaptivePGD",
        "fn-pgd": "feature:FeatureNormPGD", "pgd-scale-sweep": "gradient:ScaleSweepPGD",
        "multitargeted": "targets:MultiTargeted", "feature": "feature:FeatureAttack",
        "apgd-ce": "apgd:APGD", "apgd-dlr": "apgd:APGDDLR", "apgd-t": "apgd:APGDT",
        "cr": "constraint_relaxation:ConstraintRelaxation",
        "deepfool": "deepfool:DeepFool", "cw-l2": "carlini_wagner:CWL2",
        "fab": "fab:FAB", "fab-t": "fab:TargetedFAB",
        "ddn": "moving_radius:DDN", "fmn": "moving_radius:FMN",
        "epsilon-search": "epsilon_search:EpsilonSearch", "square": "square:Square",
        **dict.fromkeys(("autoattack", *PRESETS), "autoattack:AutoAttack"), "swift": "swift:Swift",
        "eight-bit-pgd": "eight_bit:EightBitPGD",
        "nes": "estimated_gradient:NES", "spsa": "estimated_gradient:SPSA", "zoo": "zoo:ZOO",
        "rays": "rays:RayS", "spatial": "spatial:Spatial",
    },
)  # fmt: skip

_NUMBERED = re.compile(r"(?P<base>.+?)-(?P<steps>\d+)(?:x(?P<restarts>\d+))?")


def parse_name(name: str) -> tuple[str, dict]:
    """Splits `"pgd-50x10"` into `("pgd", {"steps": 50, "restarts": 10})`, without TensorFlow.

    Example:

    >>> parse_name("pgd-20")
    ('pgd', {'steps': 20})
    """
    name, _ = split_call(name)
    match = _NUMBERED.fullmatch(name)
    base = match["base"] if match and name not in ATTACKS else name
    if base not in ATTACKS and not is_import_path(base):
        letters = name.rstrip("0123456789")
        numbered = [f"{letters}-{name.removeprefix(letters)}"] if letters in ATTACKS else []
        raise unknown_name("attack", base, ATTACKS, also=numbered)
    if base == name or match is None:
        return name, {}
    return base, {key: int(match[key]) for key in ("steps", "restarts") if match[key]}


def split_call(name: str) -> tuple[str, dict[str, Any]]:
    """Splits `"pgd-20(step_size=2/255)"` into its name and its arguments, without evaluating code.

    The name may be a class name, so that the `repr` of an attack is a name too.

    Example:

    >>> split_call("PGD(epsilon=0.1, steps=5)")
    ('pgd', {'epsilon': 0.1, 'steps': 5})
    """
    plain, arguments = registry.split_call(name, "attack", "pgd-20(step_size=2/255, restarts=2)")
    if not arguments and plain == name:
        return name, {}
    classes = {path.rpartition(":")[2]: known for known, path in reversed(ATTACKS.entries.items())}
    return classes.get(plain, plain), arguments


def get(name: str, **kwargs) -> "Attack":
    """The attack of a name; a trailing number is its steps or queries, and `x10` after it its restarts.

    Example:

    >>> get("pgd-50x10", epsilon=0.1, step_size=0.02)
    PGD(epsilon=0.1, steps=50, step_size=0.02, restarts=10)
    >>> get("square-200", epsilon=0.1)
    Square(epsilon=0.1, n_queries=200)
    >>> get("PGD(epsilon=8/255, restarts=2)")
    PGD(epsilon=0.03137254901960784, restarts=2)

    Args:
        name: A registered name, or `"module:Name"`. It may carry arguments as a call, which take precedence;
            the `repr` of a registered attack is such a name.
        **kwargs: Arguments of the attack's class; `epsilon` is always one of them.
    """
    plain, given = split_call(name)
    base, arguments = parse_name(plain)
    attack_class = ATTACKS.get(base)
    if "steps" in arguments:
        arguments[attack_class.number_argument] = arguments.pop("steps")
    try:
        attack = attack_class(**PRESETS.get(base, {}) | arguments | kwargs | given)
    except TypeError as error:
        raise InputError(f"Invalid arguments for the attack '{name}': {error}.") from error
    attack.name = name
    return attack


@dataclasses.dataclass(frozen=True)
class AttackOptions:
    """The attack inside training."""

    norm: str = option("linf", "Norm of the threat model.", choices=NORMS)
    epsilon: float = option(8 / 255, "Radius of the threat model in pixels of [0, 1], for example 8/255.")
    attack: str = option("pgd", "The training attack.", choices=("pgd", "pgd-adam", "apgd-ce"))
    step_size_warmup: float = option(
        0.0, "Epochs in which the step size rises, once per epoch, from 0.", ge=0
    )
    step_size: float | None = option(None, "Length of a step, for epsilon. [the framework's]", gt=0)
    steps: int | None = option(None, "Attack steps. [the framework's: 10, or 1]", ge=0)
    start: str | None = option(None, "Start of the attack. [the framework's]", choices=STARTS)
    restarts: int = option(1, "Attack restarts in training.", ge=1)
    logit_scale: str | float = option(
        "model", "Scale of the logits that the attack sees: model, or a number."
    )
