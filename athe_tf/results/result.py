"""What an evaluation found: per-example flags first, everything else computed from them."""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
from typing import Any

import numpy as np

from athe_tf.drawing.figures import Figure
from athe_tf.drawing.markup import fragment, notes, side_by_side, tag
from athe_tf.jobs.ownership import check_ours
from athe_tf.results import file_format, norms_and_distances
from athe_tf.results.attack_outcome import AttackOutcome, derived
from athe_tf.results.charts import accuracy_figure, accuracy_table, curve_figure, example_cards
from athe_tf.results.file_format import FORMAT
from athe_tf.results.intervals import interval_of, per_class, wilson_interval
from athe_tf.results.json_files import read_json
from athe_tf.results.notices import IN_VERDICT, UNNAMED, Notice
from athe_tf.results.pictures import EXAMPLES, read_examples
from athe_tf.results.text_table import requirement_line, text_table
from athe_tf.utils.digests import file_digest, source_digest
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import FULL, replacing, write_text
from athe_tf.utils.number_format import format_number, parse_number
from athe_tf.version import __version__

EVALUATION = "evaluation.json"
# Radii that differ by less are the same.
CLOSE = 1e-9
#: The name of the attack on 8-bit images, where rounding loses adversarial examples.
EIGHT_BIT_ATTACK = "8-bit pgd-40x3"


@dataclasses.dataclass(repr=False)
class Result:
    """The result of `athe_tf.evaluate`; `print` it for a table.

    Example:

    >>> result = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20"], epsilon=8 / 255)
    >>> result.worst_case_accuracy
    >>> result["pgd-20"].robust  # one flag per image
    >>> result.save("evaluation")
    >>> result.plot()  # in a notebook; also result.show_examples()
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
            `config.json` stays the same. In a result that was read from a file, relative to its folder.
        pictures: A few adversarial examples; the content of `examples.npz`.
        threat_models: All norms with their radii, if there are more than `norm` and `epsilon`, the first.
        class_names: The names of the classes.
        images_fingerprint: A digest by which the images are recognized.
        judge: The model that decides whether an image is classified correctly, with its digest if it has one.
        gradient_source: The model that attacks take gradients from, if it is not the judge.
        randomized: How many passes of a randomized model decide about an image.
        requirements: Requirements that were declared before the evaluation, and their outcome.
        verified: What verifiers proved about the images.
        versions: The versions of athe_tf and of the packages that it uses.
        run_digest: In a result that was read from a file, the digest of the run's `config.json`.
        format: The format of the file that it was read from.
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
    checks: list[file_format.Check] = dataclasses.field(default_factory=list)
    calibration: file_format.Calibration | None = None
    angles: file_format.Angles | None = None
    corruptions: file_format.Corruptions | None = None
    verify: list[file_format.CrossCheck] = dataclasses.field(default_factory=list)
    conversion: file_format.Conversion | None = None
    transfer: file_format.Transfer | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    command: str | None = None
    run: str | None = None
    pictures: dict[str, np.ndarray] | None = None
    threat_models: list[file_format.ThreatModel] = dataclasses.field(default_factory=list)
    class_names: list[str] | None = None
    images_fingerprint: str | None = None
    judge: file_format.ModelRole | None = None
    gradient_source: file_format.ModelRole | None = None
    randomized: file_format.Randomized | None = None
    requirements: list[file_format.Requirement] = dataclasses.field(default_factory=list)
    verified: list[file_format.Verified] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: versions_in_use())
    run_digest: str | None = None
    format: int = FORMAT

    @derived
    def examples(self) -> int:
        """The number of images."""
        return len(self.correct)

    @derived
    def epsilon_text(self) -> str:
        """The radius as text, such as `8/255`."""
        return format_number(self.epsilon)

    @derived
    def clean_accuracy(self) -> float:
        """The share of clean images that are classified correctly."""
        return float(self.correct.mean())

    @derived
    def clean_interval(self) -> list[float]:
        """The 95% confidence interval of the clean accuracy."""
        return interval_of(self.correct)

    @property
    def ran(self) -> list[AttackOutcome]:
        """The attacks that were run."""
        return [attack for attack in self.attacks if attack.was_run]

    @property
    def counted(self) -> list[AttackOutcome]:
        """The attacks that were run within the threat model."""
        return [attack for attack in self.ran if attack.in_worst_case]

    @property
    def robust(self) -> np.ndarray:
        """Whether each image survives every attack that was run within the threat model."""
        return self.survivors(self.counted)

    @derived
    def _worst_case(self) -> tuple[float, list[float]]:
        return float(self.robust.mean()), interval_of(self.robust)

    @property
    def worst_case_accuracy(self) -> float | None:
        """The share of images that survive every attack: the number to quote. `None` without attacks."""
        return self._worst_case[0] if self.counted else None

    @property
    def worst_case_interval(self) -> list[float] | None:
        """The 95% confidence interval of the worst case."""
        return self._worst_case[1] if self.counted else None

    @property
    def robust_to_rounded(self) -> np.ndarray:
        """`robust`, if adversarial examples are rounded to 8 bits."""
        return self.survivors([a for a in self.counted if a.eight_bit is not None], "robust_to_eight_bit")

    @property
    def lost_by_rounding(self) -> np.ndarray:
        """Which images have an adversarial example, but none that is left after rounding to 8 bits."""
        return self.robust_to_rounded & ~self.robust

    @derived
    def eight_bit(self) -> file_format.EightBit:
        """What is left of the adversarial examples in the worst case when they are rounded to 8 bits.

        Empty if none was found.
        """
        rounded = [(one.eight_bit, one) for one in self.counted if one.eight_bit is not None]
        counts = [one.eight_bit_counts for _, one in rounded if one.eight_bit_counts]
        if not any(each["tested"] for each in counts):
            return {}  # type: ignore[typeddict-item]
        searched = [one for one in self.attacks if one.name == EIGHT_BIT_ATTACK and one.robust is not None]
        robust = self.robust_to_rounded
        for one in searched:
            robust = robust & one.robust
        return {
            "tested": sum(each["tested"] for each in counts),
            "still_adversarial": sum(each["still_adversarial"] for each in counts),
            "accuracy": float(robust.mean()), "interval": interval_of(robust),
            "flags": {one.name: _bits(flags) for flags, one in rounded},
            "upper_bound": not searched and bool(self.lost_by_rounding.any()),
        }  # fmt: skip

    @derived
    def curve(self) -> list[file_format.CurvePoint]:
        """The worst case at every radius that attacks were run with; the first is the clean accuracy."""
        in_ball = [a for a in self.attacks if a.robust is not None and a.in_ball and a.norm == self.norm]
        ran = [(a.epsilon, a) for a in in_ball if a.epsilon is not None]
        radii = sorted({epsilon for epsilon, _ in ran})
        if len(radii) < 2:
            return []
        points = [(at, self.survivors([a for epsilon, a in ran if epsilon <= at])) for at in [0.0, *radii]]
        return [
            {"epsilon": at, "accuracy": float(flags.mean()), "interval": interval_of(flags)}
            for at, flags in points
        ]

    @derived
    def worst_cases(self) -> list[file_format.ThreatModel]:
        """All norms with their radii; if there are several, with the worst case of each."""
        return norms_and_distances.worst_cases(self)

    @derived
    def union(self) -> file_format.Union | None:
        """The share of images that withstand the attacks in all norms, and the mean over the norms."""
        return norms_and_distances.union(self)

    @derived
    def distances(self) -> file_format.Distances | None:
        """How far the nearest adversarial examples are that minimum-norm attacks found."""
        return norms_and_distances.distances(self)

    @derived
    def per_class(self) -> file_format.PerClass | None:
        """Accuracies and number of images by class."""
        if self.labels is None or self.classes is None:
            return None
        return {
            "clean": per_class(self.correct, self.labels, self.classes),
            "worst_case": per_class(self.robust, self.labels, self.classes),
            "count": np.bincount(self.labels, minlength=self.classes).tolist(),
        }

    @property
    def majority(self) -> tuple[int, float] | None:
        """The most frequent class and its share; `None` unless the classes are clearly unequal.

        They are if its share exceeds that of equal classes by five points, and by more than chance: the 95%
        interval lies above it too.
        """
        if self.per_class is None or not self.classes:
            return None
        counts = self.per_class["count"]
        most, equal = int(np.argmax(counts)), 1 / self.classes
        share, low = counts[most] / max(sum(counts), 1), wilson_interval(counts[most], max(sum(counts), 1))[0]
        return (most, share) if share >= equal + 0.05 and low > equal else None

    @property
    def covered(self) -> float | None:
        """The largest radius at which an attack of the worst case covers all images; `None` without one."""
        radii = [self.epsilon_of(one) for one in self.counted if one.image_count >= self.examples]
        return max(radii, default=None)

    def not_covered(self) -> Notice | None:
        """A warning if attacks were run, but none on all images in the threat model of the evaluation."""
        covered, headline = self.covered, f"{self.norm} {self.epsilon_text}"
        if not self.ran or (covered is not None and covered > self.epsilon - CLOSE):
            return None
        where = (
            f"beyond {self.norm} {format_number(covered)}" if covered is not None else f"within {headline}"
        )
        text = (
            f"No attack was run on all images {where}, so the robustness within {headline} is unknown and "
            "may be far lower. Give attacks by name, or in the norm and at the epsilon of the evaluation."
        )
        return Notice(text, id="radius-not-covered")

    @derived
    def verdict(self) -> str:
        """The result in one or two sentences."""
        clean = f"{self.clean_accuracy:.1%} of {self.examples:,} images are classified correctly"
        if not self.counted and self.corruptions is not None:
            return f"{clean}, and {self.corruptions['mca']:.1%} under common corruptions. No attack was run."
        if not self.counted:
            text = f"{clean}. No attack was run within the threat model, so robustness is unknown."
            return " ".join([text, *self._said(("majority-class", "nan-logits"))])
        share, (low, high) = self._worst_case
        count = len(self.counted)
        attacks = f"all {count} attacks" if count > 1 else self.counted[0].name
        text = (
            f"{clean}, and {share:.1%} (95% interval {100 * low:.1f} to "
            f"{100 * high:.1f}%) withstand {attacks} within {self.norm} {self.covered_radius}."
        )
        several = norms_and_distances.verdict_of_union(self)
        return " ".join(filter(None, [text, several, *self._said(), self._doubts()]))

    @property
    def covered_radius(self) -> str:
        """The radius that the worst case is about."""
        reached = max(map(self.epsilon_of, self.counted), default=self.epsilon)
        return self.epsilon_text if reached > self.epsilon - CLOSE else format_number(reached)

    def _said(self, ids=IN_VERDICT) -> list[str]:
        """What the headline must say itself: the first sentences of some warnings."""
        found = [one for one in self.warnings if getattr(one, "id", UNNAMED) in ids]
        return [f"{one.partition('. ')[0].rstrip('.')}." for one in found]

    def _doubts(self) -> str:
        failed = [check["name"] for check in self.checks if check["status"] == "failed"]
        if failed:
            what = "A sanity check failed" if len(failed) == 1 else f"{len(failed)} sanity checks failed"
            return f"{what}, so do not rely on this number yet: {'; '.join(failed)}."
        return "Read the warnings before you rely on this number." if self.warnings else ""

    def survivors(self, attacks: list[AttackOutcome], flags: str = "robust") -> np.ndarray:
        """Whether each image is classified correctly, clean and under all of these attacks."""
        survive = self.correct.copy()
        for attack in attacks:
            robust = getattr(attack, flags)
            if robust is not None:
                survive[: len(robust)] &= robust
        return survive

    def epsilon_of(self, attack: AttackOutcome) -> float:
        """The radius of an attack, by default the evaluation's."""
        return self.epsilon if attack.epsilon is None else attack.epsilon

    def at_headline(self, attack: AttackOutcome) -> bool:
        """Whether an attack was run at the radius of the evaluation."""
        return abs(self.epsilon_of(attack) - self.epsilon) < CLOSE

    def label(self, attack: AttackOutcome) -> str:
        """The name of an attack, with its epsilon if it is not the evaluation's: `pgd-20 @ 0.25`."""
        radius = f" @ {format_number(self.epsilon_of(attack))}"
        named = self.at_headline(attack) or attack.name.endswith(radius)
        return attack.name if named else attack.name + radius

    def class_name(self, number: int) -> str:
        """The name of a class, or its number if the classes have no names."""
        named = self.class_names is not None and 0 <= number < len(self.class_names)
        return self.class_names[number] if named else str(number)  # type: ignore[index]

    def of_images(self, rows: np.ndarray, warning: str) -> "Result":
        """The same with the flags of some images only, which its attacks were run on."""
        labels = None if self.labels is None else self.labels[rows]
        return dataclasses.replace(
            self, correct=self.correct[rows], labels=labels, warnings=[*self.warnings, warning]
        )

    def __getitem__(self, name: str) -> AttackOutcome:
        named = {attack.name: attack for attack in reversed(self.attacks)}
        check(name in named, f"There is no attack '{name}' in this result: {[a.name for a in self.attacks]}.")
        return named[name]

    def __repr__(self) -> str:
        return text_table(self)

    def plot(self) -> Figure:
        """Accuracy by attack and, with further epsilons, over epsilon."""
        curve = [curve_figure(self)] if len(self.curve) > 1 else []
        return Figure(side_by_side(accuracy_figure(self), *curve))

    def show_examples(self, most: int = 6) -> Figure:
        """Adversarial examples beside their clean images, with the predicted classes.

        Args:
            most: The number of examples, at most. Defaults to 6.
        """
        found = self.pictures is not None and len(self.pictures["clean"]) > 0
        check(
            found,
            "This result has no adversarial examples to show: it has no `pictures`.",
        )
        return Figure(example_cards(self, most))

    def _repr_html_(self) -> str:
        doubts = [f"Warning: {text}" for text in self.warnings]
        texts = [*map(requirement_line, self.requirements), *doubts]
        return fragment(tag("p", self.verdict), accuracy_table(self), notes(texts))

    def to_dict(self, folder=None) -> dict:
        """The content of `evaluation.json`; a key that does not apply is absent.

        Args:
            folder: The folder of the file; the path of the training run is relative to it. Defaults to the
                current folder.
        """
        share, interval = self._worst_case
        found = {
            "format": FORMAT, "model": self.model, "dataset": self.dataset, "examples": self.examples,
            "epsilon": self.epsilon_text, "norm": self.norm,
            "threat_models": self.worst_cases,
            "seed": self.seed, "verdict": self.verdict, "clean_accuracy": self.clean_accuracy,
            "clean_interval": self.clean_interval, "attacks": [attack.to_dict() for attack in self.attacks],
            # Without attacks this is the clean accuracy; the verdict says so.
            "worst_case_accuracy": share, "worst_case_interval": interval,
            "warnings": [{"id": getattr(one, "id", UNNAMED), "text": str(one)} for one in self.warnings],
            **({"classes": self.classes} if self.classes is not None else {}),
            **({"labels": np.asarray(self.labels).tolist()} if self.labels is not None else {}),
            **{name: getattr(self, name) for name in (*_STORED, *_DERIVED) if getattr(self, name)},
            **self._training_run(folder), "flags": self.flags, "versions": self.versions,
        }  # fmt: skip
        return _finite(found)

    @property
    def flags(self) -> dict[str, str]:
        """The flags of the clean images and of each attack as `evaluation.json` has them: 1 is correct."""
        every = [("clean", self.correct), *((attack.name, attack.robust) for attack in self.attacks)]
        return {name: _bits(flags) for name, flags in every if flags is not None}

    def _training_run(self, folder) -> dict:
        """Where the training run is, seen from a folder, and the digest by which a reader recognizes it."""
        if self.run is not None and self.run_digest is not None:
            return {"run": self.run, "run_digest": self.run_digest}
        if self.run is None or not (pathlib.Path(self.run) / "config.json").is_file():
            return {}
        place = os.path.relpath(os.path.realpath(self.run), os.path.realpath(folder or "."))
        digest = file_digest(pathlib.Path(self.run) / "config.json")
        return {"run": pathlib.Path(place).as_posix(), "run_digest": digest}

    @classmethod
    def from_dict(cls, data: dict, place: str = "This dictionary") -> "Result":
        """A result from the content of an `evaluation.json` of any format; `InputError` if it is none.

        Example:

        >>> result = athe_tf.evaluate(net, (images, labels), attacks=["fgsm"], epsilon=0.1)
        >>> athe_tf.evaluation.Result.from_dict(result.to_dict()).verdict == result.verdict
        True

        Args:
            data: The content of the file.
            place: The name of the file, for messages.
        """
        latest, version = file_format.checked(data, place)
        return cls._parsed({**latest, "format": version})

    @classmethod
    def load(cls, path) -> "Result":
        """Reads what `save` wrote, without TensorFlow.

        Args:
            path: The folder of an evaluation, or a training run with one evaluation inside it.
        """
        folder = find_evaluation(path)
        data = read_json(folder / EVALUATION, file_format.AGAIN)
        result = cls.from_dict(data, f"'{folder / EVALUATION}'")
        result.pictures = read_examples(folder)
        return result

    def as_saved(self, folder=None) -> "Result":
        """The same as a reader of its file in a folder gets it."""
        result = self._parsed(self.to_dict(folder))
        result.pictures = self.pictures
        return result

    @classmethod
    def _parsed(cls, data: dict[str, Any]) -> "Result":
        flags, rounded = data.get("flags", {}), data.get("eight_bit", {}).get("flags", {})
        attacks = []
        for entry in data["attacks"]:
            count, name = entry.get("examples", 0), entry["name"]
            found = _flags_of(flags.get(name), count), _flags_of(rounded.get(name), count)
            attacks.append(AttackOutcome.from_dict(entry, *found))
        same = ("model", "dataset", "norm", "seed", "format", "versions", "run", "run_digest", "classes")
        correct = _flags_of(flags.get("clean"), data["examples"])
        result = cls(
            epsilon=parse_number(data["epsilon"]),
            correct=np.zeros(0, bool) if correct is None else correct,
            attacks=attacks,
            warnings=[Notice(one["text"], one["id"]) for one in data["warnings"]],
            labels=np.array(data["labels"], np.int64) if "labels" in data else None,
            threat_models=data["threat_models"],
            **{name: data[name] for name in (*same, *_STORED) if name in data},
        )
        recorded = {name: data[name] for name in ("examples", "verdict", "clean_accuracy", "clean_interval")}
        recorded |= {"curve": data.get("curve", []), "eight_bit": data.get("eight_bit", {})}
        recorded |= {"per_class": data.get("per_class"), "epsilon_text": data["epsilon"]}
        recorded |= {"union": data.get("union"), "distances": data.get("distances")}
        recorded |= {"worst_cases": data["threat_models"]}
        recorded["_worst_case"] = data["worst_case_accuracy"], data["worst_case_interval"]
        vars(result).update(recorded)
        return result

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
        path, examples = folder / EVALUATION, folder / EXAMPLES
        check_ours(path, examples)
        try:
            write_text(path, self.to_json(folder))
            if self.pictures is not None:
                with replacing(examples) as temporary, open(temporary, "wb") as file:
                    np.savez_compressed(file, **dict[str, Any](self.pictures))
            else:
                examples.unlink(missing_ok=True)  # from an earlier evaluation
        except OSError as error:
            if error.errno in FULL:  # a failure of the system, not of the user
                raise
            raise InputError(f"Cannot write to '{folder}': {error.strerror}.") from error
        return path


#: Optional parts of the file with the same name and value as the field, and those that are computed.
_STORED = (
    "protocol", "class_names", "images_fingerprint", "judge", "gradient_source", "randomized", "requirements",
    "verified", "conversion", "checks", "calibration", "angles", "corruptions", "verify", "transfer",
    "settings", "command",
)  # fmt: skip
_DERIVED = ("per_class", "eight_bit", "curve", "distances", "union")


def find_evaluation(path) -> pathlib.Path:
    """The folder of `evaluation.json`: the given one, or the only one inside it."""
    folder = pathlib.Path(path)
    if folder.name == EVALUATION and folder.is_file():
        return folder.parent
    check(folder.exists(), f"There is no folder '{folder}'. Expected a folder that contains {EVALUATION}.")
    check(folder.is_dir(), f"Expected a folder with {EVALUATION}. Received a file: '{folder}'.")
    if (folder / EVALUATION).is_file():
        return folder
    inside = sorted(file.parent for file in folder.glob(f"*/{EVALUATION}"))
    check(len(inside) > 0, f"There is no {EVALUATION} in '{folder}'. Save the result of an evaluation there.")
    found = ", ".join(map(str, inside))
    check(len(inside) == 1, f"There are several evaluations in '{folder}': {found}. Name one of them.")
    return inside[0]


def _finite(value):
    """The same with `None` for numbers that JSON cannot express: one NaN must not spoil a result."""
    return json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)


def _bits(flags: np.ndarray) -> str:
    """One character per image: 1 is correct."""
    return "".join("1" if flag else "0" for flag in flags)


def _flags_of(text: str | None, count: int) -> np.ndarray | None:
    """The flags of a text; `None` unless there is one per image."""
    return np.array(list(text)) == "1" if text is not None and 0 < len(text) == count else None


def versions_in_use() -> dict[str, str]:
    """The versions of athe_tf, of the packages that decide its numbers, and of Python."""
    packages = {name: _version(name) for name in ("tensorflow", "keras", "numpy")}
    ours = {"athe_tf": __version__, "source": source_digest()}
    return {**ours, **packages, "python": platform.python_version()}


def _version(package: str) -> str:
    """The version of a package, which is not imported for it."""
    if package in sys.modules:
        return sys.modules[package].__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
