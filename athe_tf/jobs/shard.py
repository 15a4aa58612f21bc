"""`Shard`: the share of the images that one of several processes works on, and the whole from all shares."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from athe_tf.utils.errors import check

# More shards than any cluster has machines.
MAX_SHARDS = 100_000


@dataclasses.dataclass(frozen=True)
class Shard:
    """One of several equal shares of a set of images: every `count`-th image, beginning with `number`.

    Images are named by their positions in the whole set, so that an attack draws the same random numbers for
    an image in whichever shard it is.

    Example:

    >>> Shard(3, 8).rows(20)
    array([ 2, 10, 18])

    Args:
        number: Which of the shards, from 1.
        count: The number of shards.
    """

    number: int
    count: int

    def __post_init__(self):
        check(
            1 <= self.number <= self.count <= MAX_SHARDS,
            f"`number` must be between 1 and `count`, which is at most {MAX_SHARDS}. Expected, for example, "
            f"Shard(3, 8): the third of eight. Received: Shard({self.number}, {self.count}).",
        )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str, display_name: str = "shard") -> "Shard":
        """The shard that a text such as `"3/8"` means; messages call it by the display name."""
        match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        number, count = (int(part) for part in match.groups()) if match else (0, 0)
        check(
            1 <= number <= count <= MAX_SHARDS,
            f"{display_name} must be the number of a shard, from 1, and the number of shards. Expected, for "
            f"example: {display_name}=3/8, the third of eight. Received: {display_name}={text}."
            + (f" Use a number from 1 to {count}." if match and 1 <= count <= MAX_SHARDS else ""),
        )
        return cls(number, count)

    def rows(self, examples: int) -> np.ndarray:
        """The positions of its images in a set of this size."""
        return np.arange(self.number - 1, examples, self.count)

    def check_images(self, examples: int) -> None:
        """Raises `InputError` unless every shard has an image."""
        check(
            self.count <= examples,
            f"There are {self.count} shards and only {examples} images. Received: shard {self}. Use at most "
            f"{examples} shards.",
        )

    def all(self) -> "list[Shard]":
        """The shards of the same division."""
        return [Shard(number, self.count) for number in range(1, self.count + 1)]


def joined(arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> np.ndarray:
    """One array with a value per image of the whole set, from its shards' arrays.

    Example:

    >>> joined([np.array([5, 6]), np.array([7])], [Shard(1, 2).rows(3), Shard(2, 2).rows(3)])
    array([5, 7, 6])

    Args:
        arrays: The values of each shard.
        rows: The positions of its images in the whole set.
    """
    return np.concatenate(arrays)[np.argsort(np.concatenate(rows))]


#: All images.
WHOLE = Shard(1, 1)
