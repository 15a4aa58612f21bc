"""The attacks by name. Needs no TensorFlow, so that a typo is reported at once."""

import re
from typing import TYPE_CHECKING

from athe_tf.utils.errors import InputError
from athe_tf.utils.registry import Registry, is_import_path, unknown_name

if TYPE_CHECKING:
    from athe_tf.attacks.engine.attack import Attack

#: The variants of AutoAttack by name, and the arguments that they stand for.
PRESETS: dict[str, dict] = {
    "autoattack-plus": {"version": "plus"},
    "autoattack-rand": {"version": "rand"},
    "autoattack-lite": {"profile": "lite"},
    "autoattack-smoke": {"profile": "smoke"},
}

ATTACKS = Registry(
    "attack",
    __package__,
    {
        "fgsm": "gradient:FGSM",
        "bim": "gradient:BIM",
        "pgd": "gradient:PGD",
        "mim": "gradient:MIM",
        "cw-linf": "gradient:CWLinf",
        "adaptive-pgd": "gradient:AdaptivePGD",
        "fn-pgd": "feature_norm:FeatureNormPGD",
        "pgd-scale-sweep": "scale_sweep:ScaleSweepPGD",
        "multitargeted": "multitargeted:MultiTargeted",
        "feature": "feature:FeatureAttack",
        "apgd-ce": "apgd:APGD",
        "apgd-dlr": "apgd:APGDDLR",
        "apgd-t": "apgd:APGDT",
        "cr": "constraint_relaxation:ConstraintRelaxation",
        "deepfool": "deepfool:DeepFool",
        "cw-l2": "carlini_wagner:CWL2",
        "fab": "fab:FAB",
        "fab-t": "fab:TargetedFAB",
        "ddn": "ddn:DDN",
        "fmn": "fmn:FMN",
        "epsilon-search": "epsilon_search:EpsilonSearch",
        "square": "square:Square",
        "autoattack": "autoattack:AutoAttack",
        **dict.fromkeys(PRESETS, "autoattack:AutoAttack"),
        "swift": "swift:Swift",
        "nes": "estimated_gradient:NES",
        "spsa": "estimated_gradient:SPSA",
        "zoo": "zoo:ZOO",
        "rays": "rays:RayS",
        "spatial": "spatial:Spatial",
    },
)

_NUMBERED = re.compile(r"(?P<base>.+?)-(?P<steps>\d+)(?:x(?P<restarts>\d+))?")


def parse_name(name: str) -> tuple[str, dict]:
    """Splits `"pgd-50x10"` into `("pgd", {"steps": 50, "restarts": 10})`, without TensorFlow.

    Example:

    >>> parse_name("pgd-20")
    ('pgd', {'steps': 20})
    """
    match = _NUMBERED.fullmatch(name)
    base = match["base"] if match and name not in ATTACKS else name
    if base not in ATTACKS and not is_import_path(base):
        letters = name.rstrip("0123456789")
        numbered = [f"{letters}-{name.removeprefix(letters)}"] if letters in ATTACKS else []
        raise unknown_name("attack", base, ATTACKS, also=numbered)
    if base == name or match is None:
        return name, {}
    return base, {key: int(match[key]) for key in ("steps", "restarts") if match[key]}


def get(name: str, **kwargs) -> "Attack":
    """The attack of a name; a trailing number is its steps or queries, and `x10` after it its restarts.

    Example:

    >>> get("pgd-50x10", epsilon=0.1, step_size=0.02)
    PGD(epsilon=0.1, steps=50, step_size=0.02, restarts=10)
    >>> get("square-200", epsilon=0.1)
    Square(epsilon=0.1, n_queries=200)

    Args:
        name: A registered name, or `"module:Name"`.
        **kwargs: Arguments of the attack's class; `epsilon` is always one of them.
    """
    base, arguments = parse_name(name)
    attack_class = ATTACKS.get(base)
    if "steps" in arguments:
        arguments[attack_class.number_argument] = arguments.pop("steps")
    try:
        attack = attack_class(**PRESETS.get(base, {}) | arguments | kwargs)
    except TypeError as error:
        raise InputError(f"Invalid arguments for the attack '{name}': {error}.") from error
    attack.name = name
    return attack
