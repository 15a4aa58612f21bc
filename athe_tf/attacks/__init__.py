"""Attacks on image classifiers.

Two ways in: `athe_tf.attacks.get("pgd-20", epsilon=8/255)` by name, or a class with its arguments,
`athe_tf.attacks.PGD(epsilon=8/255, steps=20, loss="margin")`. Both give an `Attack`: call it for
adversarial images, `run` it for a verdict on each image.

| file | attacks |
|---|---|
| `gradient.py` | `fgsm`, `bim`, `pgd`, `mim`, `cw-linf`, `adaptive-pgd`: iterated gradient ascent |
| `feature_norm.py` | `fn-pgd`: PGD through normalised features |
| `scale_sweep.py` | `pgd-scale-sweep`: PGD at many logit scales; warnings about the scale |
| `multitargeted.py` | `multitargeted`: PGD towards every wrong class |
| `feature.py` | `feature`: PGD towards the features of images of other classes |
| `apgd.py` | `apgd-ce`, `apgd-dlr`, `apgd-t`: PGD that sets its own step size |
| `deepfool.py`, `carlini_wagner.py`, `fab.py` | `deepfool`, `cw-l2`, `fab`, `fab-t`: the least norm |
| `square.py` | `square`: random search over patches, from logits |
| `autoattack.py` | `autoattack` and its versions and profiles: APGD, FAB and Square in a cascade |
| `estimated_gradient.py`, `zoo.py` | `nes`, `spsa`, `zoo`: gradients estimated from logits |
| `rays.py` | `rays`: the least linf norm, from labels |
| `spatial.py` | `spatial`: rotations and translations |
| `transfer.py` | not an attack: what is made on one model, tried on others |

The parts: `base.py` (the contract), `driver.py` (runs an attack over a set of images), `results.py`,
`journal.py` (the state of a run in a file), `victim.py` (what an attack sees of a model),
`losses.py` (what it maximises), `pace.py` (how APGD steps), `active_set.py` (the loop whose batch shrinks).
The ball lives in `athe_tf/threat.py`. A new attack is one new file and one line here.
"""

import re

from athe_tf.errors import InputError
from athe_tf.registry import Registry, unknown_name

ATTACKS = Registry(
    "attack",
    __name__,
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


def __getattr__(name):
    return ATTACKS.attribute(name)
