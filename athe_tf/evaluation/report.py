"""What an evaluation found: per-example flags first, everything else computed from them."""

import dataclasses
import json
import platform

import numpy as np

from athe_tf.errors import InputError
from athe_tf.evaluation.statistics import wilson_interval
from athe_tf.numbers import format_number
from athe_tf.version import __version__


@dataclasses.dataclass
class AttackReport:
    """What one attack found.

    Attributes:
        name: The attack's name.
        robust: Whether each image is classified correctly, clean and under this attack; `None` when the
            attack was not run.
        seconds: Wall-clock time.
        queries: Forward passes over all images.
        gradients: Backward passes over all images.
        nonfinite: Gradients that were not finite.
        median_norm: Median length of the perturbations found, over images that fell to the attack.
        settings: How the attack was run.
        reason: Why it was not run.
        counts: Whether it stays within the threat model of the report, and so counts in the worst case.
    """

    name: str
    robust: np.ndarray | None
    seconds: float = 0.0
    queries: int = 0
    gradients: int = 0
    nonfinite: int = 0
    median_norm: float | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    reason: str | None = None
    counts: bool = True

    @property
    def accuracy(self) -> float:
        """The share of images that are right, clean and under this attack."""
        if self.robust is None:
            raise InputError(f"The attack '{self.name}' was not run: {self.reason}")
        return float(self.robust.mean())


@dataclasses.dataclass
class Report:
    """The result of `athe_tf.evaluate`; `print` it for a table.

    Attributes:
        correct: Whether each clean image is classified correctly.
        attacks: One `AttackReport` for each attack, in order.
    """

    model: str
    dataset: str
    norm: str
    epsilon: float
    seed: int
    correct: np.ndarray
    attacks: list[AttackReport]
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def examples(self) -> int:
        return len(self.correct)

    @property
    def clean_accuracy(self) -> float:
        return float(self.correct.mean())

    @property
    def robust(self) -> np.ndarray:
        """Whether each image survives every attack that was run within the threat model."""
        flags = self.correct.copy()
        for attack in self.attacks:
            if attack.robust is not None and attack.counts:
                flags &= attack.robust
        return flags

    @property
    def worst_case_accuracy(self) -> float:
        """The share of images that survive every attack: the number to quote."""
        return float(self.robust.mean())

    def __getitem__(self, name: str) -> AttackReport:
        for attack in self.attacks:
            if attack.name == name:
                return attack
        raise InputError(f"No attack '{name}' in this report: {[a.name for a in self.attacks]}.")

    def rows(self) -> list[tuple[str, np.ndarray | None, str]]:
        """`(label, flags, remark)` of every line of the table."""
        lines: list[tuple[str, np.ndarray | None, str]] = [("clean", self.correct, "")]
        for attack in self.attacks:
            remark = f"{attack.seconds:.1f} s" if attack.robust is not None else f"not run: {attack.reason}"
            if not attack.counts:
                remark += ", another threat model: not in the worst case"
            lines.append((attack.name, attack.robust, remark))
        lines.append(("worst case", self.robust, "over all attacks, image by image"))
        return lines

    def __str__(self) -> str:
        title = f"{self.model} on {self.examples} images of {self.dataset}"
        threat = f"{self.norm}, epsilon {format_number(self.epsilon)}, seed {self.seed}"
        width = max(12, *(len(label) for label, _, _ in self.rows()))
        lines = [title, threat, "", f"{'attack':<{width}}  accuracy   95 % interval"]
        for label, flags, remark in self.rows():
            if label == "worst case":
                lines.append("-" * (width + 28))
            if flags is None:
                lines.append(f"{label:<{width}}         -   {remark}")
                continue
            low, high = wilson_interval(int(flags.sum()), len(flags))
            shown = f"{100 * flags.mean():>6.2f} %   {100 * low:.1f} to {100 * high:.1f}"
            lines.append(f"{label:<{width}}  {shown:<26}{remark}".rstrip())
        lines.extend(["", *(f"Warning: {text}" for text in self.warnings)] if self.warnings else [])
        return "\n".join(lines)

    def to_dict(self) -> dict:
        """What stands in `evaluation.json`."""
        return {
            "model": self.model,
            "dataset": self.dataset,
            "examples": self.examples,
            "epsilon": format_number(self.epsilon),
            "norm": self.norm,
            "seed": self.seed,
            "clean_accuracy": self.clean_accuracy,
            "clean_interval": list(wilson_interval(int(self.correct.sum()), self.examples)),
            "attacks": [_attack_dict(attack) for attack in self.attacks],
            "worst_case_accuracy": self.worst_case_accuracy,
            "worst_case_interval": list(wilson_interval(int(self.robust.sum()), self.examples)),
            "warnings": self.warnings,
            "flags": {
                "clean": _bits(self.correct),
                **{a.name: _bits(a.robust) for a in self.attacks if a.robust is not None},
            },
            "versions": _versions(),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"


def _bits(flags: np.ndarray) -> str:
    """One character an image: 1 is correct."""
    return "".join("1" if flag else "0" for flag in flags)


def _attack_dict(attack: AttackReport) -> dict:
    if attack.robust is None:
        return {"name": attack.name, "not_run": attack.reason}
    return {
        "name": attack.name,
        "accuracy": attack.accuracy,
        "interval": list(wilson_interval(int(attack.robust.sum()), len(attack.robust))),
        "seconds": round(attack.seconds, 2),
        "queries": attack.queries,
        "gradients": attack.gradients,
        "nonfinite_gradients": attack.nonfinite,
        "median_norm": attack.median_norm,
        "settings": attack.settings,
        "in_worst_case": attack.counts,
    }


def _versions() -> dict:
    import keras
    import tensorflow as tf

    return {
        "athe_tf": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
