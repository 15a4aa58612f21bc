"""The interface of a source of corrupted images."""

from collections.abc import Iterator, Sequence

import numpy as np


class Source:
    """Corrupted images.

    Attributes:
        generated: Whether the images are generated here, so that they differ from those of published tables.
        protocol: A description of the images and how they are given to the model.
        remark: What a reader of the numbers should know, or `None`.
        imagenet: Whether this is ImageNet-C, on which AlexNet's errors were measured.
        num_classes: The number of classes, if it is known before the labels are read.
    """

    generated = False
    protocol = ""
    remark: str | None = None
    imagenet = False
    num_classes: int | None = None

    def check(self, names: Sequence[str], severities: Sequence[int]) -> None:
        """Raises `InputError` if corruptions or severities are missing, before hours are spent on others."""

    def batches(self, name: str, severity: int, batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields `(images, labels)` of a corruption and severity: float32 in [0, 1] and integers."""
        raise NotImplementedError
