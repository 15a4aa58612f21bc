"""Training images of two sets in every batch, at a fixed ratio; the extra ones may be generated."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from athe_tf.data import npz
from athe_tf.data.images import ImageSource, parallel_map, seen_of, with_options
from athe_tf.data.mapped import MappedSet
from athe_tf.data.mixing import Mixing, part_of
from athe_tf.data.options import AugmentationOptions
from athe_tf.data.splits import Splits
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.images_and_labels import as_float, check_images
from athe_tf.utils.options import make_options
from athe_tf.utils.rng import fold

# Makes the order and the augmentations of the extra images independent of the others.
_EXTRA = 0xE87A


class MixedSet(ImageSource):
    """A set whose training batches have a fixed fraction of extra images.

    An epoch has as many steps as without the extra images, so that schedules keep their meaning. Each set
    continues from epoch to epoch independently: all of its images are used once before any is repeated.
    Within a batch the two are interleaved evenly, so that replicas get the same mixture. As in every stream,
    a batch is a function of (seed, step).

    Example:

    >>> digits = athe_tf.data.load("digits").train
    >>> generated = athe_tf.data.ImageSet(np.zeros([200, 8, 8, 1], "uint8"), np.zeros([200], int))
    >>> train = athe_tf.data.MixedSet(digits, generated, fraction=0.7)
    >>> images, labels = next(iter(train.stream(128, seed=0)))     # 38 digits and 90 generated images
    >>> int((labels.numpy() == 0).sum()) >= 90
    True

    Args:
        own: The training images.
        extra: More images, labeled by a model or a generator.
        fraction: The fraction of extra images in a batch: larger than 0 and at most 1.
        smoothing: Label smoothing of the extra images; labels are then probabilities. Defaults to 0.
        later: `(epoch, fraction)`: another fraction from this epoch on. Defaults to `()`: no change.
    """

    def __init__(
        self, own: ImageSource, extra: ImageSource, fraction: float, smoothing: float = 0.0, later=()
    ):
        for value in (fraction, *later[1:]):
            check(0 < value <= 1, f"`fraction` must lie in (0, 1]. Received: fraction={value}.")
        check(
            tuple(own.image_shape) == tuple(extra.image_shape),
            f"Extra images must have the shape of the others, {tuple(own.image_shape)}. "
            f"Received: {tuple(extra.image_shape)}. Resize them.",
        )
        self.own, self.extra, self.fraction = own, extra, fraction
        self.smoothing, self.later = smoothing, tuple(later)
        self.image_shape, self.num_classes = own.image_shape, own.num_classes

    def __len__(self) -> int:
        return len(self.own)

    def __repr__(self) -> str:
        return f"MixedSet({self.own!r}, {self.extra!r}, {self._settings()})"

    def _settings(self) -> str:
        """The fraction, and what else differs from the default."""
        given = {"smoothing": self.smoothing, "later": self.later}
        return ", ".join([f"fraction={self.fraction:g}", *(f"{n}={v}" for n, v in given.items() if v)])

    def batches(self, batch_size: int) -> tf.data.Dataset:
        """The set's own images, in order, for evaluation."""
        return self.own.batches(batch_size)

    def rows(self, ids) -> tuple[np.ndarray, np.ndarray]:
        """The set's own images and labels."""
        return self.own.rows(ids)

    def all_labels(self) -> np.ndarray:
        return self.own.all_labels()

    def fingerprint(self) -> str:
        """The fingerprints of both sets, and the fraction."""
        settings = self._settings().removeprefix("fraction=")
        return f"{self.own.fingerprint()}, and {settings} extra of {self.extra.fingerprint()}"

    def exposure(self, batch_size: int, epochs: int) -> dict[str, dict[str, float]]:
        """As `ImageSource.exposure`, with the extra images."""
        total = epochs * self.steps_per_epoch(batch_size)
        phases = self._phases(batch_size, total)
        extra = sum((end - first) * few for first, end, few in phases)
        own = total * batch_size - extra
        return {"own": seen_of(own, len(self.own)), "extra": seen_of(extra, len(self.extra))}

    def _phases(self, batch_size: int, total: int | None) -> list[tuple]:
        """`(first step, step after the last, extra images per batch)` of each fraction."""
        counts = [self._extra(share, batch_size) for share in (self.fraction, *self.later[1:])]
        if not self.later:
            return [(0, total, *counts)]
        change = int(self.later[0] * self.steps_per_epoch(batch_size))
        change = change if total is None else min(change, total)
        return [(0, change, counts[0]), (change, total, counts[1])]

    def stream(
        self, batch_size: int, *, seed, augmentation="none", start_step=0, epochs=None, part=(0, 1), **options
    ) -> tf.data.Dataset:
        """As `ImageSource.stream`, with `round(fraction * batch_size)` extra images in every batch."""
        chosen = make_options(AugmentationOptions, options, "`stream`")
        # Each set augments its images; those of both are mixed.
        single = {"augmentation": augmentation} | options | {"mixup": 0.0, "cutmix": 0.0}
        mixing = Mixing(chosen, seed, batch_size, self.num_classes) if chosen.mixes else None
        total = None if epochs is None else epochs * self.steps_per_epoch(batch_size)
        before: tuple[int, ...] = (0, 0)
        dataset = None
        for first, end, few in self._phases(batch_size, total):
            counts, sources = (batch_size - few, few), (self.own, self.extra)
            # Each set goes on where the phase before has ended.
            pairs = zip(before, counts, sources, strict=True)
            steps, before = [_steps(first, *each) for each in pairs], counts
            begin = max(first, start_step)
            if end is not None and begin >= end:
                continue
            # From places in the batch to places in the images of both sets, one after the other.
            order = np.array(interleaved(*counts))
            # The images that others are mixed with may be anywhere in the batch.
            order = order if mixing is not None else part_of(order, part)
            rows = [order[order < counts[0]], order[order >= counts[0]] - counts[0]]
            streams = [
                source.stream(
                    count,
                    seed=key,
                    start_step=step + begin - first,
                    **single,
                    part=(0, 1) if len(each) == count else each.tolist(),
                )
                for source, count, key, step, each in zip(
                    sources, counts, (seed, fold(seed, _EXTRA)), steps, rows, strict=True
                )
                if len(each)
            ]
            phase = tf.data.Dataset.zip(*streams).enumerate(begin)
            join = self._join(order < counts[0], mixing, part if mixing is not None else (0, 1))
            phase = parallel_map(phase, join)
            phase = phase if end is None else phase.take(end - begin)
            dataset = phase if dataset is None else dataset.concatenate(phase)
        return with_options(tf.data.Dataset.range(0) if dataset is None else dataset)

    def _extra(self, share: float, batch_size: int) -> int:
        """The number of extra images in a batch."""
        few = round(share * batch_size)
        check(
            few > 0 and (few < batch_size or share == 1),
            f"A batch must contain images of both sets. Received: batch_size={batch_size}, "
            f"fraction={share}. Use larger batches.",
        )
        check(
            few <= len(self.extra),
            f"A batch needs {few} extra images, but there are {len(self.extra)}. Use a smaller share.",
        )
        return few

    def _join(self, own: np.ndarray, mixing: Mixing | None, part):
        """A function from a step and the batches of both sets, or of one, to part of the whole batch.

        `own` says of each place in the batch whether it is for an image of the first set.
        """
        kinds = [kind for kind in (0, 1) if (own != kind).any()]
        order = np.argsort(np.argsort(~own, kind="stable")) if len(kinds) == 2 else None

        def join(step, batches):
            images, labels = zip(*(batches if len(kinds) == 2 else [batches]), strict=True)
            if self.smoothing:
                labels = tuple(
                    (1 - share) * tf.one_hot(y, self.num_classes) + share / self.num_classes
                    for y, share in zip(labels, (self.smoothing * kind for kind in kinds), strict=True)
                )
            joined = [tf.concat(values, axis=0) for values in (images, labels)]
            if order is not None:
                joined = [tf.gather(values, order) for values in joined]
            if mixing is not None:
                joined = mixing(step, *joined)
            return tuple(part_of(values, part) for values in joined)

        return join


def _steps(done: int, before: int, batch_size: int, source: ImageSource) -> int:
    """The step of batches of one size that follows so many of the size before."""
    if not done or not before or not batch_size:
        return 0
    passes, rest = divmod(done, len(source) // before)
    per_pass = len(source) // batch_size
    return passes * per_pass + min(-(-rest * before // batch_size), per_pass)


def interleaved(many: int, few: int) -> list[int]:
    """An order of `many` items followed by `few` others in which both kinds are evenly distributed."""
    places = [(index + 0.5) / many for index in range(many)]
    places += [(index + 0.5) / few for index in range(few)]
    return sorted(range(many + few), key=places.__getitem__)


def with_extra(
    splits: Splits,
    path: str | pathlib.Path | Sequence,
    fraction: float,
    labels_by: Callable | None = None,
    smoothing: float = 0.0,
    later=(),
) -> Splits:
    """The same data set with the images of one or more files added to every training batch.

    Example:

    >>> np.savez("extra.npz", image=np.zeros([100, 8, 8, 1], "uint8"), label=np.zeros([100], int))
    >>> splits = athe_tf.data.with_extra(athe_tf.data.load("digits"), "extra.npz", fraction=0.5)
    >>> splits.train.extra
    MappedSet(100 images of shape (8, 8, 1) in 1 arrays, uint8)

    Args:
        splits: The data set.
        path: A NumPy archive with `image`, `[N, H, W, C]`, uint8 or float in [0, 1], and `label`, integers
            `[N]`, which may be left out if a model gives the labels; published files of generated CIFAR
            images use these names. Or `NAME.npy` with images, and labels in `NAME.label.npy`. Or a list of
            files. What is not compressed (`numpy.savez`, `numpy.save`) stays on disk, whatever its size.
        fraction: The fraction of extra images in a batch, at most 1.
        labels_by: A function from images `[N, H, W, C]` in [0, 1] to logits. Its predictions replace the
            labels of the file. Defaults to `None`: use the labels of the file.
        smoothing, later: As in `MixedSet`.
    """
    if splits.train is None:
        raise InputError(f"The data set '{splits.name}' has no training images to mix extra ones with.")
    images, labels = [], []
    for file in [path] if isinstance(path, str | pathlib.Path) else path:
        npz.check_extra_file(file, labels_by is not None)
        x, *given = npz.extra_arrays(file, labels_by is not None)
        # All values of small files, which are read soon anyway.
        check_images(x if x.nbytes < npz.BELIEVED_BYTES else x[:1000], npz.EXTRA_IMAGES)
        y = given[0] if labels_by is None else predictions(labels_by, x)
        images.append(x)
        labels.append(y)
    extra = MappedSet(images, labels, splits.num_classes)
    return dataclasses.replace(splits, train=MixedSet(splits.train, extra, fraction, smoothing, later))


def predictions(model: Callable, images: np.ndarray, batch_size: int = 256) -> np.ndarray:
    """The class that a model gives to each image."""
    parts = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
    return np.concatenate([np.argmax(model(as_float(part)), axis=-1) for part in parts])
