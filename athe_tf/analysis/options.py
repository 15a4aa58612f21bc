"""The settings that all analyses share."""

import dataclasses
from collections.abc import Callable

from athe_tf.utils.errors import check_integer


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
