"""What one attack found: a flag per image, and what follows from the flags."""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from athe_tf.results import file_format
from athe_tf.results.intervals import interval_of
from athe_tf.utils.errors import InputError

T = TypeVar("T")


class derived(functools.cached_property[T]):
    """A property that is computed from flags; an object that was read from a file has the file's value.

    Instance attributes come before descriptors without `__set__`, so `vars(one)[name] = value` is enough.
    Nothing is cached: attacks and warnings are added while an evaluation is running.
    """

    if not TYPE_CHECKING:

        def __get__(self, instance, owner=None):
            return self if instance is None else self.func(instance)


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
        minimum_norm: Whether it minimizes the norm, so that `norms` are meaningful.
        stages: `name`, `accuracy` and `seconds` of the attacks of a cascade.
        remarks: What a reader should know.
        examples: A few adversarial examples that it found.
        source_queries: Forward passes of the gradient source, if that is another model than the judge.
        source_gradients: Backward passes of the gradient source.
        broken_passes: How many passes of a randomized model were wrong for each image.
        gradient_faults: How many images were attacked, and had a gradient that was `"zero"` or `"nonfinite"`.
        nan_logits: How many adversarial examples have logits that are not finite.
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
    source_queries: int | None = None
    source_gradients: int | None = None
    broken_passes: np.ndarray | None = None
    gradient_faults: dict[str, int] = dataclasses.field(default_factory=dict)
    nan_logits: int = 0

    @property
    def was_run(self) -> bool:
        """Whether the attack was run."""
        return self.robust is not None or "accuracy" in vars(self)

    @derived
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
        if self.robust is None or self.norms is None or self.eight_bit is None:
            return None
        return self.robust | (self.found & ~self.eight_bit)

    @derived
    def interval(self) -> list[float]:
        """The 95% confidence interval of the accuracy."""
        return interval_of(self.robust)

    @derived
    def image_count(self) -> int:
        """The number of images that were attacked."""
        return 0 if self.robust is None else len(self.robust)

    @property
    def mean_passes(self) -> tuple[float, float]:
        """Forward and backward passes, averaged over the images that were attacked."""
        count = self.image_count or 1
        return self.queries / count, self.gradients / count

    @property
    def passes_per_image(self) -> dict[str, float]:
        """`mean_passes` by name, rounded."""
        forward, backward = self.mean_passes
        return {"forward": round(forward, 2), "backward": round(backward, 2)}

    @derived
    def median_norm(self) -> float | None:
        """Median length of the perturbations, over the adversarial examples found."""
        if self.norms is None or not self.found.any():
            return None
        return float(np.median(self.norms[self.found]))

    @derived
    def eight_bit_counts(self) -> file_format.EightBitCounts | None:
        """How many adversarial examples were rounded to 8 bits, and how many are still adversarial."""
        if self.eight_bit is None:
            return None
        return {"tested": int(self.found.sum()), "still_adversarial": int(self.eight_bit.sum())}

    def to_dict(self) -> dict:
        """Its entry in `evaluation.json`."""
        if not self.was_run:
            return {"name": self.name, "not_run": self.not_run}
        entry = {
            "name": self.name, "accuracy": self.accuracy, "interval": self.interval,
            "examples": self.image_count, "seconds": round(self.seconds, 2), "queries": self.queries,
            "gradients": self.gradients, "passes_per_image": self.passes_per_image,
            "nonfinite_gradients": self.nonfinite, "median_norm": self.median_norm,
            "settings": self.settings, "in_worst_case": self.in_worst_case,
        }  # fmt: skip
        optional = {
            "eight_bit": self.eight_bit_counts, "epsilon": self.epsilon, "norm": self.norm,
            "remarks": self.remarks or None, "stages": self.stages or None,
            "norms": None if self.norms is None or not self.minimum_norm else list(map(_rounded, self.norms)),
            "gradient_faults": self.gradient_faults or None, "nan_logits": self.nan_logits or None,
            "source_queries": self.source_queries, "source_gradients": self.source_gradients,
            "broken_passes": None if self.broken_passes is None else self.broken_passes.tolist(),
        }  # fmt: skip
        return entry | {key: value for key, value in optional.items() if value is not None}

    @classmethod
    def from_dict(cls, entry: dict, flags: np.ndarray | None = None, eight_bit: np.ndarray | None = None):
        """An outcome from its entry in `evaluation.json` and the flags there.

        Example:

        >>> AttackOutcome.from_dict({"name": "feature", "not_run": "no features"}).was_run
        False
        """
        same = (
            "seconds", "queries", "gradients", "settings", "not_run", "in_worst_case", "epsilon", "stages",
            "remarks", "source_queries", "source_gradients", "gradient_faults", "nan_logits",
        )  # fmt: skip
        norm = entry.get("norm", entry.get("settings", {}).get("norm"))
        norms = [math.inf if norm is None else norm for norm in entry.get("norms", ())]
        outcome = cls(
            entry["name"],
            flags,
            nonfinite=entry.get("nonfinite_gradients", 0),
            norms=np.array(norms) if "norms" in entry else None,
            eight_bit=eight_bit,
            norm=norm if isinstance(norm, str) else None,
            minimum_norm="norms" in entry,
            broken_passes=np.array(entry["broken_passes"]) if "broken_passes" in entry else None,
            **{key: entry[key] for key in same if key in entry},
        )
        if "accuracy" in entry:
            vars(outcome).update({key: entry[key] for key in ("accuracy", "interval", "median_norm")})
            vars(outcome).update(image_count=entry["examples"], eight_bit_counts=entry.get("eight_bit"))
        return outcome


def _rounded(norm) -> float | None:
    """Six digits, the precision of float32; JSON has no infinity."""
    return float(f"{norm:.6g}") if math.isfinite(norm) else None
