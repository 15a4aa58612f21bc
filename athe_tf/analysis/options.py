"""The settings that all analyses share, and the options that an analysis has of its own.

The latter are the keyword arguments of its `compute`, whose defaults are made with `option`. The arguments of
its public function and the flags of `bin/analyze` are derived from them, without TensorFlow.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from athe_tf.utils.errors import check, check_choice, check_integer
from athe_tf.utils.options import option

#: An option that is no flag.
argument = functools.partial(option, flag=False)


@dataclasses.dataclass(frozen=True)
class AnalysisOptions:
    """How many images an analysis uses, and how.

    Example:

    >>> options = athe_tf.analysis.AnalysisOptions(max_examples=4, name="plain")
    >>> result = athe_tf.analysis.linearity(model, (x, y), attack, options, epsilons=(0.1,))

    Args:
        max_examples: Use only the first images, at most this many. Defaults to 256.
        batch_size: Images that go through the model at once. Defaults to 128.
        seed: Seed of attacks and random directions. Defaults to 0.
        name: The name of the model in pictures. Defaults to the model's own.
        class_names: The names of the classes in pictures. Defaults to their numbers.
        progress: Called with `(steps done, steps in all)`; the latter is `None` if it is not known. Defaults
            to `None`.
    """

    max_examples: int = 256
    batch_size: int = 128
    seed: int = 0
    name: str | None = None
    class_names: tuple[str, ...] | None = None
    progress: Callable[[int, int | None], None] | None = None

    def __post_init__(self):
        check_integer("max_examples", self.max_examples, 1)
        check_integer("batch_size", self.batch_size, 1)
        check_integer("seed", self.seed, 0)


def options_class(compute: Callable, name: str) -> Any:
    """A dataclass of the options in the signature of `compute`."""
    parameters = inspect.signature(compute).parameters.values()
    fields = [(p.name, p.annotation, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY]
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True)


def check_own(own) -> None:
    """Raises `InputError` unless the options of an analysis have values that they can have."""
    for field in dataclasses.fields(own):
        value, rules = getattr(own, field.name), field.metadata
        if rules["choices"] and value is not None:
            check_choice(field.name, value, rules["choices"])
        if field.type is int:
            above = rules["above"]
            check_integer(field.name, value, rules["least"] if above is None else above + 1)
        check(np.size(value) > 0, f"`{field.name}` must not be empty.")


def points_option(default: int):
    """The size of a grid."""
    return option(default, "Grid points of landscape and decision_map per direction.", least=3)
