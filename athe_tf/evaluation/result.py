"""What an evaluation found: per-example flags first, everything else computed from them."""

import dataclasses
import html
import json
import math
import os
import pathlib
import platform
from typing import Any

import numpy as np

from athe_tf.evaluation.intervals import interval_of, per_class
from athe_tf.evaluation.text_table import text_table
from athe_tf.jobs.ownership import check_ours
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError, first_line
from athe_tf.utils.files import replacing, write_text
from athe_tf.utils.number_format import format_number
from athe_tf.version import __version__

#: The version of `evaluation.json`; its JSON Schema is in `athe_tf/report/schemas`.
FORMAT = 2


@dataclasses.dataclass
class AttackOutcome:
    """What one attack found.

    Example:

    >>> AttackOutcome("pgd-20", robust=np.array([True, True, False, True])).accuracy
    0.75

    Attributes:
        name: The attack's label.
        robust: Whether each image is classified correctly, clean and under this attack; `None` if the attack
            was not run. It may cover only the first images.
        seconds: Wall-clock time.
        queries: Forward passes, summed over all images.
        gradients: Backward passes, summed over all images.
        nonfinite: Gradients that were not finite.
        norms: Length of the smallest perturbation found for each image; infinite if none was found.
        eight_bit: Whether each image has an adversarial example that is still one when it is rounded to 8
            bits, as PNG stores it.
        settings: How the attack was run.
        not_run: Why it was not run.
        in_worst_case: Whether it stays within the threat model of the evaluation, and so counts in the worst
            case.
        epsilon: The radius it was run with.
        norm: The norm it was run in.
        in_ball: Whether it stays in that ball at all; rotations do not.
        minimum_norm: Whether it minimises the norm, so that `norms` are meaningful.
        stages: `name`, `accuracy` and `seconds` of the attacks of a cascade.
        remarks: What a reader should know.
        examples: A few adversarial examples that it found.
    """

    name: str
    robust: np.ndarray | None
    seconds: float = 0.0
    queries: int = 0
    gradients: int = 0
    nonfinite: int = 0
    norms: np.ndarray | None = None
    eight_bit: np.ndarray | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    not_run: str | None = None
    in_worst_case: bool = True
    epsilon: float | None = None
    norm: str | None = None
    in_ball: bool = True
    minimum_norm: bool = False
    stages: list[dict] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    examples: dict[str, np.ndarray] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def accuracy(self) -> float:
        """The share of images that are classified correctly, clean and under this attack."""
        if self.robust is None:
            raise InputError(f"The attack '{self.name}' was not run: {self.not_run}")
        return float(self.robust.mean())

    @property
    def found(self) -> np.ndarray:
        """Whether the attack found an adversarial example for each image."""
        if self.robust is None or self.norms is None:
            return np.zeros(0, bool)
        return ~self.robust & (self.norms > 0) & np.isfinite(self.norms)

    @property
    def robust_to_eight_bit(self) -> np.ndarray | None:
        """`robust`, if adversarial examples are rounded to 8 bits; `None` if that was not tested."""
        if self.robust is None or self.eight_bit is None:
            return None
        return self.robust | (self.found & ~self.eight_bit)

    @property
    def passes_per_image(self) -> dict[str, float]:
        """Forward and backward passes, averaged over the images that were attacked."""
        count = 1 if self.robust is None else len(self.robust)
        totals = {"forward": self.queries, "backward": self.gradients}
        return {name: round(total / count, 2) for name, total in totals.items()}

    @property
    def median_norm(self) -> float | None:
        """Median length of the perturbations, over the adversarial examples found."""
        if self.norms is None or not self.found.any():
            return None
        return float(np.median(self.norms[self.found]))

    def to_dict(self) -> dict:
        """Its entry in `evaluation.json`."""
        if self.robust is None:
            return {"name": self.name, "not_run": self.not_run}
        entry = {
            "name": self.name,
            "accuracy": self.accuracy,
            "interval": interval_of(self.robust),
            "examples": len(self.robust),
            "seconds": round(self.seconds, 2),
            "queries": self.queries,
            "gradients": self.gradients,
            "passes_per_image": self.passes_per_image,
            "nonfinite_gradients": self.nonfinite,
            "median_norm": self.median_norm,
            "settings": self.settings,
            "in_worst_case": self.in_worst_case,
        }
        if self.eight_bit is not None:
            entry["eight_bit"] = _eight_bit_counts([self])
        if self.epsilon is not None:
            entry["epsilon"] = self.epsilon
        if self.remarks:
            entry["remarks"] = self.remarks
        if self.stages:
            entry["stages"] = self.stages
        if self.minimum_norm and self.norms is not None:
            entry["norms"] = [_rounded(norm) for norm in self.norms]
        return entry


@dataclasses.dataclass(repr=False)
class Result:
    """The result of `athe_tf.evaluate`; `print` it for a table.

    Example:

    >>> result = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20"], epsilon=8 / 255)
    >>> result.worst_case_accuracy
    >>> result["pgd-20"].robust  # one flag per image
    >>> result.save("evaluation")
    >>> page = athe_tf.report.render(result)

    Attributes:
        model: The name of the model.
        dataset: The name of the data.
        norm: Norm of the threat model.
        epsilon: Its radius.
        seed: Seed of the attacks.
        correct: Whether each clean image is classified correctly.
        attacks: One `AttackOutcome` per attack, in order.
        warnings: What is unusual about the model.
        labels: The class of each image.
        classes: The number of classes.
        protocol: The name of the protocol.
        checks: The sanity checks.
        calibration: Calibration on clean images and, as `"adversarial"`, under attack.
        angles: Histograms of the angles of a hypersphere head.
        corruptions: Accuracies under common corruptions.
        verify: The same attacks by independent code.
        conversion: A file for another runtime beside its parent, the model that it was made of.
        transfer: Adversarial examples of one model, tested on others.
        settings: How the evaluation was run.
        command: The command that repeats it.
        run: The folder of the training run. A report shows its settings and curves as long as its
            `config.json` stays the same.
        pictures: A few adversarial examples; the content of `examples.npz`.
    """

    model: str
    dataset: str
    norm: str
    epsilon: float
    seed: int
    correct: np.ndarray
    attacks: list[AttackOutcome] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    labels: np.ndarray | None = None
    classes: int | None = None
    protocol: str | None = None
    checks: list[dict] = dataclasses.field(default_factory=list)
    calibration: dict | None = None
    angles: dict | None = None
    corruptions: dict | None = None
    verify: list[dict] = dataclasses.field(default_factory=list)
    conversion: dict | None = None
    transfer: dict | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    command: str | None = None
    run: str | None = None
    pictures: dict[str, np.ndarray] | None = None

    @property
    def examples(self) -> int:
        """The number of images."""
        return len(self.correct)

    @property
    def clean_accuracy(self) -> float:
        """The share of clean images that are classified correctly."""
        return float(self.correct.mean())

    @property
    def counted(self) -> list[AttackOutcome]:
        """The attacks that were run within the threat model."""
        return [attack for attack in self.attacks if attack.robust is not None and attack.in_worst_case]

    @property
    def robust(self) -> np.ndarray:
        """Whether each image survives every attack that was run within the threat model."""
        return self._survivors(self.counted)

    @property
    def worst_case_accuracy(self) -> float | None:
        """The share of images that survive every attack: the number to quote. `None` without attacks."""
        return float(self.robust.mean()) if self.counted else None

    @property
    def eight_bit(self) -> dict:
        """What is left of the adversarial examples in the worst case when they are rounded to 8 bits.

        Empty if none was found.
        """
        rounded = [attack for attack in self.counted if attack.eight_bit is not None]
        if not any(attack.found.any() for attack in rounded):
            return {}
        robust = self._survivors(rounded, "robust_to_eight_bit")
        return {
            **_eight_bit_counts(rounded),
            "accuracy": float(robust.mean()),
            "interval": interval_of(robust),
            "flags": {one.name: _bits(one.eight_bit) for one in rounded if one.eight_bit is not None},
        }

    @property
    def curve(self) -> list[dict]:
        """The worst case at every radius that attacks were run with; the first is the clean accuracy."""
        in_ball = [a for a in self.attacks if a.robust is not None and a.in_ball and a.norm == self.norm]
        ran = [(a.epsilon, a) for a in in_ball if a.epsilon is not None]
        radii = sorted({epsilon for epsilon, _ in ran})
        if len(radii) < 2:
            return []
        points = [(at, self._survivors([a for epsilon, a in ran if epsilon <= at])) for at in [0.0, *radii]]
        return [
            {"epsilon": at, "accuracy": float(flags.mean()), "interval": interval_of(flags)}
            for at, flags in points
        ]

    @property
    def verdict(self) -> str:
        """The result in one or two sentences."""
        clean = f"{self.clean_accuracy:.1%} of {self.examples:,} images are classified correctly"
        if not self.counted and self.corruptions is not None:
            return f"{clean}, and {self.corruptions['mca']:.1%} under common corruptions. No attack was run."
        if not self.counted:
            return f"{clean}. No attack was run within the threat model, so robustness is unknown."
        low, high = interval_of(self.robust)
        count = len(self.counted)
        attacks = f"all {count} attacks" if count > 1 else self.counted[0].name
        text = (
            f"{clean}, and {self.worst_case_accuracy:.1%} (95 % interval {100 * low:.1f} to "
            f"{100 * high:.1f} %) withstand {attacks} within {self.norm} {format_number(self.epsilon)}."
        )
        return f"{text} {self._doubts()}".rstrip()

    def _doubts(self) -> str:
        failed = [check["name"] for check in self.checks if check["status"] == "failed"]
        if failed:
            what = "A sanity check failed" if len(failed) == 1 else f"{len(failed)} sanity checks failed"
            return f"{what}, so do not rely on this number yet: {'; '.join(failed)}."
        return "Read the warnings before you rely on this number." if self.warnings else ""

    def _survivors(self, attacks: list[AttackOutcome], flags: str = "robust") -> np.ndarray:
        survive = self.correct.copy()
        for attack in attacks:
            robust = getattr(attack, flags)
            if robust is not None:
                survive[: len(robust)] &= robust
        return survive

    def of_images(self, rows: np.ndarray, warning: str) -> "Result":
        """The same with the flags of some images only, which its attacks were run on."""
        labels = None if self.labels is None else self.labels[rows]
        return dataclasses.replace(
            self, correct=self.correct[rows], labels=labels, warnings=[*self.warnings, warning]
        )

    def __getitem__(self, name: str) -> AttackOutcome:
        for attack in self.attacks:
            if attack.name == name:
                return attack
        raise InputError(f"There is no attack '{name}' in this result: {[a.name for a in self.attacks]}.")

    def __repr__(self) -> str:
        return text_table(self.to_dict())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def to_dict(self, folder=None) -> dict:
        """The content of `evaluation.json`; a key that does not apply is absent.

        Args:
            folder: The folder of the file; the path of the training run is relative to it. Defaults to the
                current folder.
        """
        attacked = [(attack.name, attack.robust) for attack in self.attacks if attack.robust is not None]
        found = {
            "format": FORMAT,
            "model": self.model,
            "dataset": self.dataset,
            "examples": self.examples,
            "epsilon": format_number(self.epsilon),
            "norm": self.norm,
            "seed": self.seed,
            "verdict": self.verdict,
            "clean_accuracy": self.clean_accuracy,
            "clean_interval": interval_of(self.correct),
            "attacks": [attack.to_dict() for attack in self.attacks],
            # Without attacks this is the clean accuracy; the verdict says so.
            "worst_case_accuracy": float(self.robust.mean()),
            "worst_case_interval": interval_of(self.robust),
            "warnings": self.warnings,
            **self._per_class(),
            **{name: getattr(self, name) for name in _OPTIONAL if getattr(self, name)},
            **self._training_run(folder),
            "flags": {name: _bits(flags) for name, flags in [("clean", self.correct), *attacked]},
            "versions": _versions(),
        }
        return _finite(found)

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

    def _training_run(self, folder) -> dict:
        """Where the training run is, seen from a folder, and the digest by which a reader recognizes it."""
        if self.run is None or not (pathlib.Path(self.run) / "config.json").is_file():
            return {}
        place = os.path.relpath(os.path.realpath(self.run), os.path.realpath(folder or "."))
        return {
            "run": pathlib.Path(place).as_posix(),
            "run_digest": file_digest(pathlib.Path(self.run) / "config.json"),
        }

    def to_json(self, folder=None) -> str:
        """The text of `evaluation.json`; `folder` as for `to_dict`."""
        return json.dumps(self.to_dict(folder), indent=2, default=str) + "\n"

    def save(self, folder) -> pathlib.Path:
        """Writes `evaluation.json` and, if adversarial examples were found, `examples.npz`.

        Each file is written completely or not at all. Files that athe_tf did not write are not replaced.

        Args:
            folder: Where to write; created if necessary.

        Returns:
            The path of `evaluation.json`.
        """
        folder = pathlib.Path(folder)
        path, examples = folder / "evaluation.json", folder / "examples.npz"
        check_ours(path, examples)
        try:
            write_text(path, self.to_json(folder))
            if self.pictures is not None:
                with replacing(examples) as temporary, open(temporary, "wb") as file:
                    np.savez_compressed(file, **dict[str, Any](self.pictures))
            else:
                examples.unlink(missing_ok=True)  # those of an earlier evaluation
        except OSError as error:
            raise InputError(f"Cannot write to '{folder}': {first_line(error)}.") from error
        return path


_OPTIONAL = (
    "protocol", "eight_bit", "conversion", "curve", "checks", "calibration", "angles", "corruptions",
    "verify", "transfer", "settings", "command",
)  # fmt: skip


def _finite(value):
    """The same with `None` for numbers that JSON cannot express: one NaN must not spoil a result."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _eight_bit_counts(attacks: list[AttackOutcome]) -> dict[str, int]:
    """How many adversarial examples were rounded to 8 bits, and how many of them are still adversarial."""
    return {
        "tested": sum(int(attack.found.sum()) for attack in attacks),
        "still_adversarial": sum(int(one.eight_bit.sum()) for one in attacks if one.eight_bit is not None),
    }


def _bits(flags: np.ndarray) -> str:
    """One character per image: 1 is correct."""
    return "".join("1" if flag else "0" for flag in flags)


def _rounded(norm) -> float | None:
    """Six digits, the precision of float32; JSON has no infinity."""
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
