"""What an evaluation found: per-example flags first, everything else computed from them."""

import dataclasses
import json
import math
import pathlib
import platform
from typing import Any

import numpy as np

from athe_tf.evaluation.intervals import interval_of, per_class
from athe_tf.evaluation.text_table import table, verdict
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing, write_text
from athe_tf.utils.number_format import format_number
from athe_tf.utils.ownership import check_ours
from athe_tf.version import __version__


@dataclasses.dataclass
class AttackReport:
    """What one attack found.

    Attributes:
        name: The attack's label.
        robust: Whether each image is classified correctly, clean and under this attack; `None` when the
            attack was not run. It may be about the first images only.
        seconds: Wall-clock time.
        queries: Forward passes over all images.
        gradients: Backward passes over all images.
        nonfinite: Gradients that were not finite.
        norms: Length of the smallest perturbation found for each image; infinite where none.
        settings: How the attack was run.
        reason: Why it was not run.
        counts: Whether it stays within the threat model of the report, and so counts in the worst case.
        epsilon: The radius it was run with.
        norm: The norm it was run in.
        in_ball: Whether it stays in that ball at all; rotations do not.
        least_norm: Whether it looks for the least norm, so that `norms` mean something.
        stages: `name`, `accuracy` and `seconds` of the attacks it consists of, where there are several.
        remarks: What a reader should be told.
        shown: A few images that fell to it.
    """

    name: str
    robust: np.ndarray | None
    seconds: float = 0.0
    queries: int = 0
    gradients: int = 0
    nonfinite: int = 0
    norms: np.ndarray | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    reason: str | None = None
    counts: bool = True
    epsilon: float | None = None
    norm: str | None = None
    in_ball: bool = True
    least_norm: bool = False
    stages: list[dict] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    shown: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """The share of images that are right, clean and under this attack."""
        if self.robust is None:
            raise InputError(f"The attack '{self.name}' was not run: {self.reason}")
        return float(self.robust.mean())

    @property
    def median_norm(self) -> float | None:
        """Median length of the perturbations found, over images that fell to the attack."""
        if self.robust is None or self.norms is None:
            return None
        found = self.norms[~self.robust & (self.norms > 0)]
        return float(np.median(found)) if len(found) else None

    def to_dict(self) -> dict:
        """Its entry in `evaluation.json`."""
        if self.robust is None:
            return {"name": self.name, "not_run": self.reason}
        entry = {
            "name": self.name,
            "accuracy": self.accuracy,
            "interval": interval_of(self.robust),
            "examples": len(self.robust),
            "seconds": round(self.seconds, 2),
            "queries": self.queries,
            "gradients": self.gradients,
            "nonfinite_gradients": self.nonfinite,
            "median_norm": self.median_norm,
            "settings": self.settings,
            "in_worst_case": self.counts,
        }
        if self.epsilon is not None:
            entry["epsilon"] = self.epsilon
        if self.remarks:
            entry["remarks"] = self.remarks
        if self.stages:
            entry["stages"] = self.stages
        if self.least_norm and self.norms is not None:
            entry["norms"] = [_rounded(norm) for norm in self.norms]
        return entry


@dataclasses.dataclass
class Report:
    """The result of `athe_tf.evaluate`: `print` it for a table; a notebook shows the whole page.

    Attributes:
        correct: Whether each clean image is classified correctly.
        attacks: One `AttackReport` for each attack, in order.
        warnings: What is odd about the model.
        labels: The class of each image.
        classes: How many classes there are.
        protocol: The name of the protocol.
        checks: The sanity sheet.
        calibration: Clean and, as `"adversarial"`, under attack.
        angles: Histograms of the angles of a hypersphere head.
        corruptions: Accuracies under common corruptions.
        verify: The same attacks by independent code.
        transfer: What is made on one model, tried on others.
        settings: How the evaluation was run.
        command: What repeats it.
        run: The folder of the training run.
        pictures: A few images that fell; what stands in `examples.npz`.
    """

    model: str
    dataset: str
    norm: str
    epsilon: float
    seed: int
    correct: np.ndarray
    attacks: list[AttackReport]
    warnings: list[str] = dataclasses.field(default_factory=list)
    labels: np.ndarray | None = None
    classes: int | None = None
    protocol: str | None = None
    checks: list[dict] = dataclasses.field(default_factory=list)
    calibration: dict | None = None
    angles: dict | None = None
    corruptions: dict | None = None
    verify: list[dict] = dataclasses.field(default_factory=list)
    transfer: dict | None = None
    settings: dict | None = None
    command: str | None = None
    run: str | None = None
    pictures: dict[str, np.ndarray] | None = None

    @property
    def examples(self) -> int:
        """The number of images."""
        return len(self.correct)

    @property
    def clean_accuracy(self) -> float:
        """The share of images that are right as they are."""
        return float(self.correct.mean())

    @property
    def counted(self) -> list[AttackReport]:
        """The attacks that were run within the threat model."""
        return [attack for attack in self.attacks if attack.robust is not None and attack.counts]

    @property
    def robust(self) -> np.ndarray:
        """Whether each image survives every attack that was run within the threat model."""
        return self._survivors(self.counted)

    @property
    def worst_case_accuracy(self) -> float | None:
        """The share of images that survive every attack: the number to quote. `None` without attacks."""
        return float(self.robust.mean()) if self.counted else None

    @property
    def curve(self) -> list[dict]:
        """The worst case at every radius that attacks were run with; the first is the clean accuracy."""
        ran = [a for a in self.attacks if a.robust is not None and a.in_ball and a.norm == self.norm]
        radii = sorted({a.epsilon for a in ran if a.epsilon is not None})
        if len(radii) < 2:
            return []
        points = []
        for radius in [0.0, *radii]:
            flags = self._survivors([a for a in ran if a.epsilon is not None and a.epsilon <= radius])
            points.append(
                {"epsilon": radius, "accuracy": float(flags.mean()), "interval": interval_of(flags)}
            )
        return points

    def _survivors(self, attacks: list[AttackReport]) -> np.ndarray:
        flags = self.correct.copy()
        for attack in attacks:
            if attack.robust is not None:
                flags[: len(attack.robust)] &= attack.robust
        return flags

    def __getitem__(self, name: str) -> AttackReport:
        for attack in self.attacks:
            if attack.name == name:
                return attack
        raise InputError(f"No attack '{name}' in this report: {[a.name for a in self.attacks]}.")

    def __str__(self) -> str:
        return table(self)

    # -- to files ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict:
        """What stands in `evaluation.json`; a key that does not apply is not there."""
        found: dict[str, Any] = {
            "model": self.model,
            "dataset": self.dataset,
            "examples": self.examples,
            "epsilon": format_number(self.epsilon),
            "norm": self.norm,
            "seed": self.seed,
            "verdict": verdict(self),
            "clean_accuracy": self.clean_accuracy,
            "clean_interval": interval_of(self.correct),
            "attacks": [attack.to_dict() for attack in self.attacks],
        }
        # Without attacks nothing is known but the clean accuracy; the verdict says so.
        found["worst_case_accuracy"] = float(self.robust.mean())
        found["worst_case_interval"] = interval_of(self.robust)
        found["warnings"] = self.warnings
        found |= self._per_class()
        for name in ("protocol", "curve", "checks", "calibration", "angles", "corruptions", "verify"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        for name in ("transfer", "settings", "command", "run"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        found["flags"] = {
            "clean": _bits(self.correct),
            **{a.name: _bits(a.robust) for a in self.attacks if a.robust is not None},
        }
        found["versions"] = _versions()
        return found

    def _per_class(self) -> dict:
        if self.labels is None or self.classes is None:
            return {}
        return {
            "classes": self.classes,
            "labels": np.asarray(self.labels).tolist(),
            "per_class": {
                "clean": per_class(self.correct, self.labels, self.classes),
                "worst_case": per_class(self.robust, self.labels, self.classes),
                "count": np.bincount(self.labels, minlength=self.classes).tolist(),
            },
        }

    def to_json(self) -> str:
        """The text of `evaluation.json`."""
        return json.dumps(_finite(self.to_dict()), indent=2, default=str) + "\n"

    def save(self, folder) -> pathlib.Path:
        """Writes `evaluation.json` and, where images fell, `examples.npz`, each whole or not at all."""
        folder = pathlib.Path(folder)
        path, examples = folder / "evaluation.json", folder / "examples.npz"
        check_ours(path, examples)
        try:
            write_text(path, self.to_json())
            if self.pictures is not None:
                with replacing(examples) as temporary, open(temporary, "wb") as file:
                    np.savez_compressed(file, **dict[str, Any](self.pictures))
            else:
                examples.unlink(missing_ok=True)  # those of an earlier evaluation
        except OSError as error:
            raise InputError(f"Cannot write to '{folder}': {error.strerror}.") from error
        return path

    def to_html(self) -> str:
        """The whole report as one HTML page that needs nothing else."""
        from athe_tf.report.evaluation_page import render

        return render(self.to_dict(), self.pictures)

    def _repr_html_(self) -> str:
        return self.to_html()


def _finite(value):
    """The same with `None` for numbers that JSON does not know: a report is not lost for one NaN."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _bits(flags: np.ndarray) -> str:
    """One character an image: 1 is correct."""
    return "".join("1" if flag else "0" for flag in flags)


def _rounded(norm) -> float | None:
    """Six digits, which is what float32 has; JSON knows no infinity."""
    return float(f"{norm:.6g}") if math.isfinite(norm) else None


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
