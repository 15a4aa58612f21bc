"""Named evaluations: which attacks, at what radius, with which settings.

A protocol is a table. `he2020` repeats the tables of the hypersphere-embedding paper (Pang et al., 2020),
`pas` and `llr` those of two papers on training with large epsilons and on local linearity. Where a protocol
brings a radius, its steps are those of that radius; at another one they are scaled in proportion.

Nothing here imports TensorFlow: a command line with a typo is answered at once.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from athe_tf.utils.registry import unknown_name


@dataclasses.dataclass(frozen=True)
class Line:
    """One attack of a protocol.

    Attributes:
        attack: A registered name, with its steps.
        label: How the report calls it; the attack's name by default.
        step: Length of a step at the protocol's radius; the attack's own default without.
        settings: Further arguments of the attack.
        limit: Attack the first so many images only.
        hypersphere: Needs a hypersphere head, and is told the margin of training.
        note: What the report says about it.
    """

    attack: str
    label: str | None = None
    step: float | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    limit: int | None = None
    hypersphere: bool = False
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class Protocol:
    """A named evaluation.

    Attributes:
        name: What `--protocol=` takes.
        summary: One line for a manual.
        lines: Its attacks.
        epsilon: The radius it was published with; `None` where any will do.
        norm: The norm it was published with; `None` where any will do.
        classes: The least number of classes that its attacks need.
        transfer: Attacks whose images are made on each model and tried on all.
        corruptions: Whether it measures common corruptions.
    """

    name: str
    summary: str
    lines: tuple[Line, ...] = ()
    epsilon: float | None = None
    norm: str | None = None
    classes: int = 2
    transfer: tuple[Line, ...] = ()
    corruptions: bool = False


AS_PUBLISHED = (
    "as published: cross-entropy of unscaled cosines, last iterate; a weak attack on hypersphere heads"
)


def _at_scale_one(attack: str, step: float | None = None) -> Line:
    settings = {"logit_scale": 1.0, "select": "last"}
    return Line(attack, f"{attack} (scale 1)", step, settings, note=AS_PUBLISHED)


def _with_steps(step: float, *attacks: str) -> tuple[Line, ...]:
    return tuple(Line(attack, step=step) for attack in attacks)


_HE_STEP = 0.003

_ALL = (
    Protocol(
        "quick",
        "FGSM, PGD-20 on cross-entropy, on the margin and towards 9 targets: a first look in minutes",
        (
            Line("fgsm"),
            Line("pgd-20"),
            Line("cw-linf-20"),
            Line("multitargeted-20", settings={"top_k": 9}),
        ),
    ),
    Protocol(
        "he2020",
        "Tables 2 and 10 of the hypersphere-embedding paper, at scale 1 as published and at the model's own",
        (
            _at_scale_one("pgd-20", _HE_STEP),
            _at_scale_one("pgd-500", _HE_STEP),
            _at_scale_one("mim-20", _HE_STEP),
            _at_scale_one("fgsm"),
            *_with_steps(_HE_STEP, "pgd-20", "pgd-500", "mim-20"),
            Line("fgsm"),
            Line("deepfool-100"),
            Line("cw-linf-20", step=_HE_STEP),
            Line(
                "cw-l2", note="least l2 norm, counted where its norm is within epsilon; as the C&W column was"
            ),
            Line("feature", step=_HE_STEP, settings={"n_targets": 200}, limit=1000),
            Line("fab-20", note="20 iterations, as the released script has"),
            Line("adaptive-pgd-20", step=_HE_STEP, hypersphere=True),
            Line("adaptive-pgd-500", step=_HE_STEP, hypersphere=True),
        ),
        epsilon=0.031,
        norm="linf",
    ),
    Protocol(
        "table3",
        "Table 3: PGD-50 with 10 restarts, as fast adversarial training is measured",
        _with_steps(2 / 255, "pgd-50x10"),
        epsilon=8 / 255,
        norm="linf",
    ),
    Protocol(
        "imagenet",
        "Table 4: PGD-10 and PGD-50 within 4/255, steps of 1/255",
        _with_steps(1 / 255, "pgd-10", "pgd-50"),
        epsilon=4 / 255,
        norm="linf",
    ),
    Protocol(
        "benchmark",
        "Table 6: RayS on 1,000 images, and AutoAttack",
        (Line("rays-10000", limit=1000), Line("autoattack")),
        epsilon=8 / 255,
        norm="linf",
    ),
    Protocol(
        "blackbox",
        "Table 8: ZOO with 20,000 queries, SPSA and NES with 20, 50 and 80 steps",
        (
            Line("zoo-20000"),
            *_with_steps(_HE_STEP, "spsa-20", "spsa-50", "spsa-80", "nes-20", "nes-50", "nes-80"),
        ),
        epsilon=0.031,
        norm="linf",
    ),
    Protocol(
        "transfer",
        "Figure 4: PGD-20 and MIM-20 from every model to every other, named by --substitutes",
        _with_steps(_HE_STEP, "pgd-20", "mim-20"),
        epsilon=0.031,
        norm="linf",
        transfer=_with_steps(_HE_STEP, "pgd-20", "mim-20"),
    ),
    Protocol(
        "corruptions",
        "Tables 5, 11 and 12: 15 common corruptions at 5 severities; no attack",
        corruptions=True,
    ),
    Protocol(
        "pas",
        "PGD-100 with 10 restarts, APGD-100 on cross-entropy and DLR, Square with 5,000 queries",
        (
            Line("pgd-100x10", step=1 / 255),
            Line("apgd-ce-100"),
            Line("apgd-dlr-100", settings={"restarts": 5}),
            Line("square-5000"),
        ),
        epsilon=8 / 255,
        norm="linf",
        classes=3,
    ),
    Protocol(
        "llr",
        "PGD on the margin, MultiTargeted and DeepFool, as local linearity regularisation is measured",
        (Line("cw-linf-50"), Line("multitargeted-20"), Line("deepfool-100")),
        epsilon=8 / 255,
        norm="linf",
    ),
    Protocol(
        "full",
        "Every family of attacks that has something to add, AutoAttack last; hours on a CPU",
        (
            Line("fgsm"),
            Line("pgd-100x5"),
            Line("pgd-scale-sweep-20"),
            Line("cw-linf-100"),
            Line("multitargeted-20"),
            Line("deepfool-100"),
            Line("feature", settings={"n_targets": 200}, limit=1000),
            Line("rays-10000", limit=1000),
            Line("autoattack"),
        ),
    ),
)

#: From a name to its protocol.
PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in _ALL}


def get_protocol(name: str) -> Protocol:
    """The protocol of a name.

    Example:

    >>> [line.attack for line in get_protocol("imagenet").lines]
    ['pgd-10', 'pgd-50']
    """
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
