"""Named evaluations: which attacks, at what radius, with which settings.

A protocol is a table. `he2020` reproduces the tables of the hypersphere-embedding paper (Pang et al., 2020),
`pas` and `llr` those of two papers on training with large epsilons and on local linearity. If a protocol has
a radius of its own, its step sizes belong to that radius and are scaled in proportion at any other.

Nothing here imports TensorFlow, so that a typo is reported at once.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from athe_tf.utils.registry import unknown_name


@dataclasses.dataclass(frozen=True)
class AttackSpec:
    """One attack of a protocol.

    Example:

    >>> AttackSpec("pgd-20", step_size=2 / 255, limit=1000).attack
    'pgd-20'

    Attributes:
        attack: A registered name, with its steps.
        label: Its name in the result. Defaults to the attack's name.
        step_size: Step size at the protocol's radius. Defaults to the attack's own default.
        settings: Further arguments of the attack.
        limit: Attack only the first images, at most this many. Defaults to `None`: all.
        epsilon: A radius of its own, other than the protocol's; scaled with it. Defaults to `None`.
        hypersphere: Whether it needs a hypersphere head and the margin of training.
        equals: The label of an earlier attack of the protocol that provably finds the same. Its result is
            copied, at no cost.
        note: A remark in the result.
    """

    attack: str
    label: str | None = None
    step_size: float | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    limit: int | None = None
    epsilon: float | None = None
    hypersphere: bool = False
    equals: str | None = None
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class Protocol:
    """A named evaluation.

    Example:

    >>> athe_tf.evaluation.PROTOCOLS["table3"].attacks[-1].attack
    'pgd-50x10'

    Attributes:
        name: Its name.
        summary: One line for a manual.
        attacks: Its attacks.
        epsilon: The radius it was published with; `None` if any will do.
        norm: The norm it was published with; `None` if any will do.
        min_classes: The smallest number of classes that its attacks need.
        transfer: Attacks whose adversarial examples are crafted on each model and tested on all.
        corruptions: Whether it measures common corruptions.
        forms: Protocols that take its place on a data set, because its authors used other settings there.
    """

    name: str
    summary: str
    attacks: tuple[AttackSpec, ...] = ()
    epsilon: float | None = None
    norm: str | None = None
    min_classes: int = 2
    transfer: tuple[AttackSpec, ...] = ()
    corruptions: bool = False
    forms: Mapping[str, str] = dataclasses.field(default_factory=dict)


_UNSCALED = "cross-entropy of unscaled cosines"
_WEAK = "a weak attack on hypersphere heads"
AS_PUBLISHED = f"as published: {_UNSCALED}, last iterate; {_WEAK}"
# HE's paper does not say how Table 3 was measured, and its code has no evaluation for it.
AS_RELEASED = f"{_UNSCALED}, as in the evaluations that HE's authors released; {_WEAK}"


def at_scale(label: str, scale: float | str) -> str:
    """The label of an attack that sees logits of another scale than the model's."""
    return f"{label} (scale {scale:g})"


def _at_scale_one(attack: str, step_size: float | None = None) -> AttackSpec:
    settings = {"logit_scale": 1.0, "select": "last"}
    return AttackSpec(attack, at_scale(attack, 1), step_size, settings, note=AS_PUBLISHED)


def _attacks(*names: str, **common) -> tuple[AttackSpec, ...]:
    return tuple(AttackSpec(name, **common) for name in names)


def _adaptive(attack: str) -> AttackSpec:
    """The paper's adaptive attack, which the margin does not make another one: see `AdaptivePGD`."""
    return AttackSpec(
        f"adaptive-{attack}",
        step_size=_HE_STEP_SIZE,
        hypersphere=True,
        equals=attack,
        note=f"copied from {attack}: a margin does not change the direction of any step",
    )


def _pas_attacks(step_size: float) -> tuple[AttackSpec, ...]:
    """The columns of PAS; the rebuttal names no restarts of APGD, the released code has five."""
    return (
        AttackSpec("pgd-100x10", step_size=step_size),
        *_attacks("apgd-ce-100x5", "apgd-dlr-100x5", "square-5000"),
    )


_HE_STEP_SIZE = 0.003


def _linf(epsilon: float, name: str, summary: str, *attacks: AttackSpec, **others) -> Protocol:
    """A protocol that was published with a radius in the linf norm."""
    return Protocol(name, summary, attacks, epsilon, "linf", **others)


_ALL = (
    Protocol(
        "quick",
        "FGSM, PGD-20 on cross-entropy, on the margin and toward 9 targets: a first look in minutes",
        (
            *_attacks("fgsm", "pgd-20", "cw-linf-20"),
            AttackSpec("multitargeted-20", settings={"n_targets": 9}),
        ),
    ),
    _linf(
        0.031,
        "he2020",
        "Tables 2 and 10 of the hypersphere-embedding paper, at scale 1 as published and at the model's own",
        *(_at_scale_one(attack, _HE_STEP_SIZE) for attack in ("pgd-20", "pgd-500", "mim-20")),
        _at_scale_one("fgsm"),
        *_attacks("pgd-20", "pgd-500", "mim-20", step_size=_HE_STEP_SIZE),
        *_attacks("fgsm", "deepfool-100"),
        AttackSpec("cw-linf-20", step_size=_HE_STEP_SIZE),
        AttackSpec(
            "cw-l2",
            note="minimum l2 norm; an adversarial example counts if it lies within epsilon. A guess at "
            "the paper's C&W column, whose accuracies are that high; the paper says C&W in linf",
        ),
        AttackSpec("feature", step_size=_HE_STEP_SIZE, settings={"n_targets": 200}, limit=1000),
        AttackSpec("fab-20", note="20 iterations, as in the released script"),
        *(_adaptive(attack) for attack in ("pgd-20", "pgd-500")),
    ),
    _linf(
        8 / 255,
        "table3",
        "Table 3: PGD-50 with 10 restarts, at scale 1 and at the model's own",
        AttackSpec("pgd-50x10", at_scale("pgd-50x10", 1), 2 / 255, {"logit_scale": 1.0}, note=AS_RELEASED),
        AttackSpec("pgd-50x10", step_size=2 / 255, note="the evaluation of FastAT's released code"),
    ),
    _linf(
        8 / 255,
        "hypersphere",
        "Is a gain by hypersphere embedding real? PGD-20 at scale 1 as published and at the model's own, "
        "and swift; within 8/255",
        *(_at_scale_one("pgd-20", _HE_STEP_SIZE), AttackSpec("pgd-20", step_size=_HE_STEP_SIZE)),
        AttackSpec("swift"),
    ),
    _linf(
        4 / 255,
        "imagenet",
        "Table 4: PGD-10 and PGD-50 within 4/255, at scale 1 as published and at the model's own",
        *(_at_scale_one(attack, 1 / 255) for attack in ("pgd-10", "pgd-50")),
        *_attacks("pgd-10", "pgd-50", step_size=1 / 255),
    ),
    _linf(
        8 / 255,
        "benchmark",
        "Table 6: RayS with 40,000 queries within 0.031 on 1,000 images, and AutoAttack within 8/255",
        AttackSpec(
            "rays-40000",
            limit=1000,
            epsilon=0.031,
            note="queries and radius of the RayS benchmark that the paper cites; it states neither",
        ),
        AttackSpec("autoattack"),
    ),
    _linf(
        0.031,
        "table7",
        "Table 7: PGD-1 and PGD-2 on an undefended model, with and without normalized features",
        *_attacks(
            *("pgd-1", "fn-pgd-1", "pgd-2", "fn-pgd-2"),
            step_size=_HE_STEP_SIZE,
            settings={"select": "last"},
            note="the paper gives neither radius nor step size for it; those of Table 2",
        ),
    ),
    _linf(
        0.031,
        "table9",
        "Table 9: PGD-20 at scale 1 as published and at the model's own, and PGD-50 on the margin",
        *(_at_scale_one("pgd-20", _HE_STEP_SIZE), AttackSpec("pgd-20", step_size=_HE_STEP_SIZE)),
        AttackSpec("cw-linf-50x5"),
    ),
    _linf(
        0.031,
        "blackbox",
        "Table 8: ZOO with 20,000 queries, SPSA and NES with 20, 50 and 80 steps",
        AttackSpec("zoo-20000"),
        AttackSpec(
            *("zoo-20000", "zoo-20000 (threshold)"),
            settings={"mode": "threshold"},
            note="in [0, 1] with a penalty on the l2 norm; an adversarial example counts if it lies "
            "within epsilon",
        ),
        *_attacks("spsa-20", "spsa-50", "spsa-80", "nes-20", "nes-50", "nes-80", step_size=_HE_STEP_SIZE),
    ),
    _linf(
        0.031,
        "transfer",
        "Figure 4 and the rebuttal: PGD-10, PGD-20 and MIM-20 from every model to every other (needs other "
        "models as substitutes)",
        *_attacks("pgd-20", "mim-20", step_size=_HE_STEP_SIZE),
        transfer=_attacks("pgd-10", "pgd-20", "mim-20", step_size=_HE_STEP_SIZE),
    ),
    Protocol(
        "corruptions",
        "Tables 5, 11 and 12: 15 common corruptions at 5 severities; no attack",
        corruptions=True,
    ),
    _linf(
        8 / 255,
        "pas",
        "PGD-100 with 10 restarts, APGD-100 on cross-entropy and DLR with 5, Square with 5,000 queries; "
        "within 8/255, on MNIST within 0.4",
        *_pas_attacks(step_size=1 / 255),
        min_classes=3,
        forms={"mnist": "pas_mnist"},
    ),
    _linf(
        0.4,
        "pas_mnist",
        "pas with the settings of MNIST: within 0.4, PGD steps of 0.01",
        *_pas_attacks(step_size=0.01),
        min_classes=3,
    ),
    _linf(
        0.3,
        "pas_challenge",
        "The comparison with the MNIST challenge: PGD-100 from one start and from 50, within 0.3",
        *_attacks("pgd-100", "pgd-100x50", step_size=0.01),
    ),
    _linf(
        8 / 255,
        "llr",
        "PGD on the margin, MultiTargeted and DeepFool, as used for local linearity regularization",
        *_attacks("cw-linf-50", "multitargeted-20", "deepfool-100"),
    ),
    _linf(
        8 / 255,
        "fastat",
        "FastAT_Benchmark: PGD-10 and PGD-50 with steps of 2/255, AutoAttack, constraint relaxation",
        *_attacks("pgd-10", "pgd-50", step_size=2 / 255, settings={"select": "last"}),
        *_attacks("autoattack", "cr"),
    ),
    Protocol(
        "full",
        "One attack of every family that finds something new, AutoAttack last; takes hours on a CPU",
        (
            *_attacks("fgsm", "pgd-100x5", "pgd-scale-sweep-20", "cw-linf-100"),
            *_attacks("multitargeted-20", "deepfool-100"),
            AttackSpec("feature", settings={"n_targets": 200}, limit=1000),
            AttackSpec("rays-10000", limit=1000),
            *_attacks("cr", "autoattack"),
        ),
    ),
)

#: From a name to its protocol.
PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in _ALL}


def get_protocol(name: str) -> Protocol:
    """Returns the protocol with this name.

    Example:

    >>> [spec.attack for spec in get_protocol("pas_challenge").attacks]
    ['pgd-100', 'pgd-100x50']
    """
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def protocol_for(name: str, dataset: str | None) -> Protocol:
    """Returns the protocol with this name in the form that its authors used on a data set.

    Example:

    >>> protocol_for("pas", "mnist").epsilon
    0.4
    """
    protocol = get_protocol(name)
    return get_protocol(protocol.forms.get(dataset or "", name))
