"""The attacks by name; knows them without importing them, so that a typo is answered at once."""

import re

from athe_tf.utils.errors import InputError
from athe_tf.utils.registry import Registry, unknown_name

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
        "deepfool": "deepfool:DeepFool",
        "cw-l2": "carlini_wagner:CWL2",
        "fab": "fab:FAB",
        "fab-t": "fab:TargetedFAB",
        "square": "square:Square",
        "autoattack": "autoattack:AutoAttack",
        "autoattack-plus": "autoattack:AutoAttackPlus",
        "autoattack-rand": "autoattack:AutoAttackRand",
        "autoattack-lite": "autoattack:AutoAttackLite",
        "autoattack-smoke": "autoattack:AutoAttackSmoke",
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
    if base not in ATTACKS:
        letters = name.rstrip("0123456789")
        numbered = [f"{letters}-{name.removeprefix(letters)}"] if letters in ATTACKS else []
        raise unknown_name("attack", base, ATTACKS, also=numbered)
    if base == name or match is None:
        return name, {}
    numbers = {key: int(match[key]) for key in ("steps", "restarts") if match[key]}
    return base, numbers


def get(name: str, **kwargs):
    """The attack of a name; a trailing number is its steps, and `x10` behind it its restarts.

    Example:

    >>> attack = athe_tf.attacks.get("pgd-50x10", epsilon=8 / 255, step_size=2 / 255)

    Args:
        name: A registered name.
        **kwargs: Arguments of the attack's class; `epsilon` is always one of them.
    """
    base, numbers = parse_name(name)
    attack_class = ATTACKS.get(base)
    try:
        attack = attack_class(**numbers | kwargs)
    except TypeError as error:
        raise InputError(f"The attack '{name}' cannot be made so: {error}.") from error
    attack.name = name
    return attack
