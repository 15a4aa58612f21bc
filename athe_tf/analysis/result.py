"""What an analysis returns."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.utils.errors import check


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AnalysisResult:
    """The numbers of an analysis of one model, and how to draw them.

    A subclass adds fields, `what_to_see`, `key_numbers` and `draw`.

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

    #: The name of the analysis.
    analysis: ClassVar[str]
    #: Number of panels of a picture.
    panels: ClassVar[int] = 1
    #: Whether several models share the panels, or get panels of their own.
    shared: ClassVar[bool] = True
    #: What a reader should look for.
    what_to_see: ClassVar[str]
    #: Width and height of a panel in inches.
    size: ClassVar[tuple[float, float]] = (5.6, 3.6)

    model: str
    images: int
    settings: dict[str, Any]

    @property
    def key_numbers(self) -> dict[str, float]:
        """The few numbers of the `repr`."""
        raise NotImplementedError

    def draw(self, axes: Sequence, series: int, count: int) -> None:
        """Draws one model into the panels.

        Args:
            axes: As many matplotlib axes as there are panels.
            series: Position of the model among those in the picture: its colour.
            count: Number of models in the picture.
        """
        raise NotImplementedError

    @property
    def caption(self) -> str:
        """What to see in the picture, with the number of images and the settings."""
        return caption_of(self, [self])

    def plot(self, ax=None):
        """Draws the picture.

        Args:
            ax: A matplotlib axes, or a sequence of them if the picture has several panels. By default a
                new figure, with the caption under it.

        Returns:
            The axes, or a list of them if the picture has several panels.
        """
        return drawing.plot([self], ax, self.caption)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "athe_tf": "analysis", "analysis": self.analysis, "caption": self.caption, **_plain(fields)
        }  # fmt: skip

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.4g}" for name, value in self.key_numbers.items())
        return f"{type(self).__name__}({self.model!r}, {self.images} images, {numbers})"


class Comparison:
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
        for result in results[1:]:
            _check_same_settings(results[0], result)
        self.results = list(results)
        self.analysis = kinds[0]

    @property
    def caption(self) -> str:
        """What to see in the picture, with the number of images and the settings."""
        return caption_of(self.results[0], self.results)

    def plot(self, ax=None):
        """Draws all models; see `AnalysisResult.plot`. Maps of several models need as many axes."""
        return drawing.plot(self.results, ax, self.caption)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON."""
        return {
            "athe_tf": "analysis",
            "analysis": self.analysis,
            "caption": self.caption,
            "models": [result.to_dict() for result in self.results],
        }

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.results))


def compare(results: Sequence[AnalysisResult]) -> Comparison:
    """Puts the results of one analysis for several models into one picture.

    Example:

    >>> options = [athe_tf.analysis.AnalysisOptions(name=name) for name in ("a", "b")]
    >>> results = [athe_tf.analysis.linearity(model, (x, y), attack, o, epsilons=(0.1,)) for o in options]
    >>> axes = athe_tf.analysis.compare(results).plot()

    Args:
        results: At least two results of the same analysis with the same settings.
    """
    return Comparison(results)


def caption_of(result: AnalysisResult, results: Sequence[AnalysisResult]) -> str:
    """The caption of a picture of these results."""
    settings = "; ".join(f"{name} {_text(value)}" for name, value in result.settings.items())
    numbers = " ".join(
        f"{one.model}: {', '.join(f'{name} {value:.4g}' for name, value in one.key_numbers.items())}."
        for one in results
    )
    images = "1 image" if result.images == 1 else f"{result.images} images"
    return f"{result.what_to_see} {numbers} {images if result.images else 'No images'}; {settings}."


def _check_same_settings(first: AnalysisResult, other: AnalysisResult) -> None:
    a = first.settings | {"images": first.images}
    b = other.settings | {"images": other.images}
    differing = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    check(
        not differing,
        f"Models can be compared only under the same settings. '{first.model}' and '{other.model}' differ "
        f"in: {', '.join(differing)}.",
    )


def _text(value) -> str:
    return ", ".join(map(_text, value)) if isinstance(value, (tuple, list)) else str(value)


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    # JSON knows no NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value
