"""The base of all analyses: how one is computed, drawn and compared."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.jobs.journal import differences
from athe_tf.utils.errors import check, check_choice, check_integer
from athe_tf.utils.options import option

#: An option that is no flag.
argument = functools.partial(option, flag=False)


class Picture:
    """What can be drawn with a caption: the result of one model, or of several."""

    @property
    def results(self) -> Sequence["AnalysisResult"]:
        """The result of each model in the picture."""
        raise NotImplementedError

    @property
    def caption(self) -> str:
        """What to see in the picture, then the key numbers of each model and the settings, line by line."""
        first = self.results[0]
        numbers = [f"{result.model}: {result.numbers_text(' = ')}." for result in self.results]
        images = "1 image" if first.images == 1 else f"{first.images} images"
        settings = [f"{name.replace('_', ' ')} {value}" for name, value in first.settings.items()]
        return "\n".join([first.what_to_see, *numbers, f"{'; '.join([images, *settings])}."])

    def plot(self, ax=None, projection: str = drawing.FLAT) -> Any:
        """Draws the picture.

        Args:
            ax: A matplotlib axes, or a sequence of them if the picture has several panels; maps of several
                models need a panel for each. By default a new figure, with the caption under it.
            projection: matplotlib's name for the kind of axes of a new figure: one of `projections`. Defaults
                to `"rectilinear"`, flat axes.

        Returns:
            The axes, or a list of them if the picture has several panels.
        """
        first = self.results[0]
        check_choice("projection", projection, first.projections)
        needed = first.panels * (1 if first.shared else len(self.results))
        if ax is None:
            axes = drawing.new_axes(first.size, needed, self.caption, projection)
        else:
            axes = drawing.given_axes(ax, needed)
        for series, result in enumerate(self.results):
            start = 0 if first.shared else series * first.panels
            result.draw(axes[start : start + first.panels], series, self.results)
        return axes[0] if needed == 1 else axes


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AnalysisResult(Picture):
    """An analysis: how its numbers are computed for one model, and how to draw them.

    A subclass is a frozen dataclass. It adds fields, `analysis`, `summary`, `what_to_see`, `key_numbers`,
    `compute` and `draw`.

    Example:

    >>> result = athe_tf.analysis.linearity(model, (x, y), attack, epsilons=(0.1,))
    >>> axes = result.plot()
    >>> result.to_dict()["analysis"]
    'linearity'

    Args:
        model: The name of the model.
        images: Number of images.
        settings: Settings of the analysis, for captions and files.
    """

    #: The name of the analysis, of its function and of its file.
    analysis: ClassVar[str]
    #: What it shows, in a few words.
    summary: ClassVar[str]
    #: What a model must have: `"logits"`, `"features"`, `"weights"` or `"angles"`.
    needs: ClassVar[str] = "logits"
    #: A dataclass of the options of the analysis, made from the signature of `compute`.
    options: ClassVar[type]
    #: Number of panels of a picture.
    panels: ClassVar[int] = 1
    #: Whether several models share the panels, or get panels of their own.
    shared: ClassVar[bool] = True
    #: The projections of matplotlib that it can be drawn in.
    projections: ClassVar[tuple[str, ...]] = (drawing.FLAT,)
    #: What a reader should look for.
    what_to_see: ClassVar[str]
    #: Width and height of a panel in inches.
    size: ClassVar[tuple[float, float]] = (6.4, 3.6)

    model: str
    images: int
    settings: dict[str, Any]

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True, repr=False)(cls)
        named = [p for p in inspect.signature(cls.compute).parameters.values() if p.kind is p.KEYWORD_ONLY]
        fields = [(p.name, p.annotation, p.default) for p in named]
        cls.options = dataclasses.make_dataclass(f"{cls.__name__}Options", fields, frozen=True, kw_only=True)

    @classmethod
    def compute(cls, *args: Any, **own: Any) -> Any:
        """Computes the numbers.

        The arguments of the public function and the flags of `bin/analyze` are derived from the options,
        without TensorFlow; its docstring becomes the function's.

        Args:
            *args: The `Subject`: a model with its images and its attack.
            **own: The options. A subclass names each, with a default made by `option` or `argument`.
        """
        raise NotImplementedError

    @classmethod
    def chosen(cls, given: dict[str, Any]):
        """All options of the analysis, of which some are given; raises `InputError` if they cannot be."""
        own = cls.options(**given)
        for field in dataclasses.fields(cls.options):
            value, rules = getattr(own, field.name), field.metadata
            if rules["choices"] and value is not None:
                check_choice(field.name, value, rules["choices"])
            if field.type is int:
                above = rules["gt"]
                check_integer(field.name, value, rules["ge"] if above is None else above + 1)
            check(np.size(value) > 0, f"`{field.name}` must not be empty.")
        cls.check_options(own)
        return own

    @classmethod
    def check_options(cls, options, display_name: Callable[[str], str] = str) -> None:
        """Raises `InputError` unless options that are flags go together.

        Args:
            options: Has them as attributes.
            display_name: From the name of an option to how messages call it.
        """

    @classmethod
    def requirement(cls, own) -> str:
        """What a model must have with these options."""
        return cls.needs

    @classmethod
    def used_images(cls, own, most: int) -> int:
        """How many of the first images are used with these options, if `most` are wanted."""
        return most

    @classmethod
    def file_stem(cls, own) -> str:
        """The name of files without a suffix: variants of an analysis do not replace each other."""
        return cls.analysis

    @property
    def results(self):
        """This result only."""
        return [self]

    @property
    def key_numbers(self) -> dict[str, float]:
        """The few numbers of the `repr` and of the caption."""
        raise NotImplementedError

    def draw(self, axes: Sequence, series: int, results: Sequence) -> None:
        """Draws one model into the panels.

        Args:
            axes: As many matplotlib axes as there are panels.
            series: Position of the model in the picture, which decides its color.
            results: The results of all models in the picture.
        """
        raise NotImplementedError

    def numbers_text(self, sign: str) -> str:
        """The key numbers, each as its name, the sign and its value."""
        # The unit of a name such as `accuracy (%)` comes after the value.
        named = [(name.removesuffix(" (%)"), name, value) for name, value in self.key_numbers.items()]
        return ", ".join(f"{a}{sign}{value:.3g}{'' if a == name else ' %'}" for a, name, value in named)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"analysis": self.analysis, **_plain(fields)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]):
        """The result that `to_dict` wrote, after a round trip through JSON as well."""
        return cls(**{field.name: _field(field, values[field.name]) for field in dataclasses.fields(cls)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {self.images} images, {self.numbers_text('=')})"


class Comparison(Picture):
    """The results of one analysis for several models, in one picture.

    Example:

    >>> options = [athe_tf.analysis.AnalysisOptions(name=name) for name in ("a", "b")]
    >>> results = [athe_tf.analysis.linearity(model, (x, y), attack, o, epsilons=(0.1,)) for o in options]
    >>> athe_tf.analysis.compare(results).analysis
    'linearity'

    Args:
        results: At least two results of the same analysis with the same settings.
    """

    def __init__(self, results: Sequence[AnalysisResult]):
        check(
            len(results) >= 2,
            f"A comparison needs at least two models. Received: {len(results)}. Use the result's own plot.",
        )
        kinds = sorted({result.analysis for result in results})
        check(
            len(kinds) == 1,
            f"Only results of the same analysis can be compared. Received: {', '.join(kinds)}.",
        )
        first, *others = [(result.model, result.settings | {"images": result.images}) for result in results]
        for model, settings in others:
            differing = sorted(differences(settings, first[1], "{name}"))
            check(
                not differing,
                f"Models can be compared only under the same settings. '{first[0]}' and '{model}' differ in: "
                f"{', '.join(differing)}.",
            )
        self._results = list(results)
        self.analysis = kinds[0]

    @property
    def results(self):
        """The result of each model."""
        return self._results

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON."""
        return {"analysis": self.analysis, "models": [result.to_dict() for result in self.results]}

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.results))


# The verb for it.
compare = Comparison


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        # The shortest decimals that give the same float32: as float64, they have 17 digits.
        short = value.astype(str).astype(np.float64) if value.dtype == np.float32 else value
        return _plain(short.tolist())
    # JSON knows no NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _field(field: dataclasses.Field, value):
    """A field of a result from its value in JSON."""
    if field.type is np.ndarray:
        array = np.array(value)
        return array.astype(np.float64) if array.dtype == object else array  # None is NaN
    return tuple(value) if isinstance(value, list) else value
