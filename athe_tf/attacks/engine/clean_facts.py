"""What is known about a model and its clean images before an attack."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class CleanFacts:
    """What is known about a model and its clean images before an attack.

    An evaluation finds these facts out once and hands them to the `run` of every attack, which then repeats
    neither the clean pass nor the checks of images and model. Queries are counted as if it did.

    Attributes:
        correct: Whether each image is classified correctly.
        deterministic: Whether the same images give the same logits in every pass.
        warnings: What the clean logits say against attacks on cross-entropy.
        model: The digest that identifies the model in a state file. Defaults to
            `None`: an attack with a state finds it out.
        zero_gradients: Returns the share of images at which the margin has a zero gradient.
        whole: Images and labels of the whole set that the attacked images are a part of, for attacks that
            draw from the set. Defaults to `None`: the attacked images are the whole set.
        checked: Which of the attacked images the checks of the model used. Defaults to `None`: the first
            batch.
    """

    correct: np.ndarray
    deterministic: bool = True
    warnings: Sequence[str] = ()
    model: str | None = None
    zero_gradients: Callable[[], float] = float
    whole: tuple[np.ndarray, np.ndarray] | None = None
    checked: np.ndarray | None = None
