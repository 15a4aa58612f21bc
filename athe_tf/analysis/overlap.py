"""Near-duplicates of test images among extra training images."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.options import option

# Images are compared at this many rows and columns; extra images are read so many at a time.
SIDE, CHUNK = 8, 4096


class Overlap(AnalysisResult):
    """The nearest extra training image of each image; made by `overlap`.

    Example:

    >>> np.savez("extra.npz", image=x, label=y)     # a leak: the images themselves
    >>> result = athe_tf.analysis.overlap(model, (x, y), extra_data="extra.npz")
    >>> result.duplicates == len(x)
    True

    Args:
        extra: Number of extra images.
        distances: Root mean square difference to the nearest one, mirrored or not, in pixels of [0, 1].
        nearest: Its position among the extra images.
        threshold: Images up to this distance count as near-duplicates.
    """

    analysis = "overlap"
    summary = "near-duplicates of test images among extra training images"
    what_to_see = (
        "How far each image is from the nearest extra training image, as a cumulative share. Images left of "
        "the threshold have a near-duplicate: accuracy on them may be memory."
    )

    extra: int
    distances: np.ndarray
    nearest: np.ndarray
    threshold: float

    @property
    def duplicates(self) -> int:
        """The number of images with a near-duplicate."""
        return int((self.distances <= self.threshold).sum())

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        extra_data: str = option("", "Files of extra training images, as for bin/train."),
        threshold: float = option(
            0.03, "Root mean square difference, in pixels of [0, 1], up to which images are duplicates.", ge=0
        ),
    ) -> "Overlap":
        """Compares each image with all extra training images and their mirror images.

        Images are compared at 8 x 8 pixels, at which a shift by a pixel or noise changes little. The model is
        not used, except for the images that it takes.
        """
        from athe_tf.data import npz

        if not extra_data:
            raise InputError("Name the extra training images: --extra_data=FILE.npz, or `extra_data`.")
        ours = reduced(subject.x)
        ours = np.concatenate([ours, reduced(subject.x[:, :, ::-1])])
        best, nearest, start = np.full(len(ours), np.inf), np.zeros(len(ours), int), 0
        for file in extra_data.split(","):
            npz.check_extra_file(file, labelled_by_model=True)
            (images,) = npz.extra_arrays(file, labelled_by_model=True)
            check(
                images.shape[1:] == subject.x.shape[1:],
                f"Extra images must have the shape of the others, {subject.x.shape[1:]}. Received: "
                f"{images.shape[1:]} in {file}.",
            )
            for first in subject.track(range(0, len(images), CHUNK), -(-len(images) // CHUNK)):
                found = squared_distances(ours, reduced(images[first : first + CHUNK]))
                here = found.argmin(axis=1)
                closest = found[np.arange(len(ours)), here]
                nearest = np.where(closest < best, start + first + here, nearest)
                best = np.minimum(best, closest)
            start += len(images)
        pairs, places = best.reshape(2, -1), nearest.reshape(2, -1)
        mirrored = pairs.argmin(axis=0)
        rows = np.arange(len(subject))
        return cls(
            **subject.facts(),
            extra=start,
            distances=np.sqrt(pairs[mirrored, rows]),
            nearest=places[mirrored, rows],
            threshold=threshold,
        )

    @property
    def key_numbers(self):
        return {"near-duplicates": self.duplicates, "smallest distance": float(self.distances.min())}

    def draw(self, axes, series, results):
        (ax,) = axes
        shares = np.arange(1, self.images + 1) / self.images
        ax.plot(np.sort(self.distances), shares, label=self.model, **drawing.line_style(series))
        ax.axvline(self.threshold, color=drawing.INK, linewidth=1.2)
        drawing.finish(ax, "distance to the nearest extra image", "share of images")


def reduced(images) -> np.ndarray:
    """Images of 8 x 8 pixels or fewer as rows of numbers in [0, 1]: means of equal blocks."""
    scale = 255 if images.dtype == np.uint8 else 1
    for axis in (1, 2):
        edges = np.linspace(0, images.shape[axis], min(SIDE, images.shape[axis]), endpoint=False).astype(int)
        sizes = np.diff([*edges, images.shape[axis]])
        blocks = np.add.reduceat(images, edges, axis=axis, dtype=np.float64)
        images = blocks / np.expand_dims(sizes, tuple(set(range(4)) - {axis}))
    return (images / scale).reshape(len(images), -1)


def squared_distances(one, other) -> np.ndarray:
    """Mean squares of the differences of all pairs of rows."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    return np.maximum(squares, 0) / one.shape[1]


overlap = function_of(Overlap.compute)
