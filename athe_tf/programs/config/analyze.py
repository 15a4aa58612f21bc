"""The settings of bin/analyze."""

import dataclasses
import pathlib
from typing import Any

from athe_tf.analysis.registry import ALL_ANALYSES, ANALYSES, RUN_ANALYSES
from athe_tf.data.names import check_name as check_data_set
from athe_tf.programs.config.evaluate import EvaluatedModel
from athe_tf.programs.config.fields import ImageOptions, check_folder, flag
from athe_tf.utils.choices import NORMS, check_epsilon, check_input_range
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option, seed_option, with_help
from athe_tf.utils.registry import unknown_name

# What a picture in another projection is called.
PROJECTIONS = {"rectilinear": "", "3d": "_surface"}


def flag_fields(analysis) -> list[dataclasses.Field]:
    """The options of an analysis that are flags."""
    return [field for field in dataclasses.fields(analysis.options) if field.metadata.get("flag", True)]


def own_flags() -> list[tuple]:
    """The options of all analyses that are flags, each once: `(name, type, field)`.

    An option has no default if analyses differ in it.
    """
    found: dict[str, tuple] = {}
    # Analyses with many of them come first.
    for analysis in sorted(ANALYSES.values(), key=lambda one: -len(flag_fields(one))):
        for field in flag_fields(analysis):
            same = field.name not in found or found[field.name][2].default == field.default
            default = field.default if same else None
            kind: Any = field.type
            found[field.name] = field.name, kind | None, option(default, **field.metadata)
    return list(found.values())


OwnFlags: Any = dataclasses.make_dataclass("OwnFlags", own_flags(), frozen=True)


@dataclasses.dataclass(frozen=True)
class AnalyzedModels:
    """The models, and what to find out about them."""

    model: str | None = option(
        None, "A .keras file, a SavedModel folder, a workdir of bin/train, or module:function."
    )
    input_range: tuple[float, ...] = with_help(EvaluatedModel, "input_range")
    compare: tuple[str, ...] = option(
        (), "Several models instead, drawn in one picture, separated by commas."
    )
    what: tuple[str, ...] = option((), "Which analyses, separated by commas; the list is above.")


# Python lists the fields of the last base first.
@dataclasses.dataclass(frozen=True)
class SharedFlags(ImageOptions, AnalyzedModels):
    """What all analyses need."""

    norm: str | None = option(None, "Norm of the attack. [the run's own, or linf]", choices=NORMS)
    epsilon: float | None = option(None, "Radius of the attack. [the run's own, or 8/255]")
    steps: int = option(10, "Steps of the attack.", gt=0)
    max_examples: int = option(256, "Use only the first N images.", gt=0)
    batch_size: int = option(128, "Images that go through the model at once.", gt=0)
    seed: int = seed_option("Seed of attacks and random directions.")


@dataclasses.dataclass(frozen=True)
class AnalyzeConfig(OwnFlags, SharedFlags):
    """Analyses of one model, or of several in one picture."""

    output: str = option(
        "analysis",
        "Folder for the pictures and numbers of each analysis; inside a run, bin/report finds RUN/analysis.",
    )

    def __post_init__(self):
        check_options(self, flag)
        check(
            (self.model is None) != (not self.compare),
            "Give either --model=MODEL, or several models as --compare=A,B.",
        )
        check(
            bool(self.what),
            f"Specify what to analyze: --what={next(iter(ANALYSES))}. Available: {', '.join(ALL_ANALYSES)}.",
        )
        for name in self.what:
            if name not in ALL_ANALYSES:
                raise unknown_name("analysis", name, ALL_ANALYSES)
        check(
            not self.compare or len(self.compare) >= 2,
            f"A comparison needs at least two models. Received: --compare={','.join(self.compare)}. Use "
            "--model for one.",
        )
        twice = sorted({name for name in self.compare if self.compare.count(name) > 1})
        check(not twice, f"Name each model once. Received twice: {', '.join(twice)}.")
        for analysis in ANALYSES.values():
            analysis.check_options(self, flag)
        for name in () if self.compare else self.what:
            several = f"{name} needs several training runs. Give them as --compare=RUN1,RUN2."
            check(name not in RUN_ANALYSES, several)
        check_folder(self, "output")
        if self.input_range:
            check_input_range(self.input_range, "--input_range")
        if self.dataset is not None:
            check_data_set(self.dataset)
        if self.epsilon is not None:
            check_epsilon(self.norm or "linf", self.epsilon)

    @property
    def models(self) -> tuple[str, ...]:
        """All models, one or several."""
        return self.compare or (str(self.model),)

    def given_options(self, what: str) -> dict[str, Any]:
        """The options of an analysis that have a value."""
        names = [field.name for field in flag_fields(ALL_ANALYSES[what])]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def chosen_options(self, what: str) -> Any:
        """The options of an analysis, with its defaults."""
        return ALL_ANALYSES[what].chosen(self.given_options(what))

    def path(self, what: str) -> pathlib.Path:
        """The path of the files of an analysis, without a suffix."""
        return pathlib.Path(self.output) / ALL_ANALYSES[what].file_stem(self.chosen_options(what))

    def foreign_options(self, what: str) -> set[str]:
        """The options that only other analyses have."""
        own = {field.name for field in flag_fields(ALL_ANALYSES[what])}
        return {field.name for field in dataclasses.fields(OwnFlags)} - own
