"""Images in files of their own, read when they are needed, and `folder:PATH`: the user's, in folders.

`folder_layout.py` describes the folders. A set of gray images has one channel; in a set with colors, gray
images get three. Transparency is dropped.
"""

import contextlib
import functools
import json
import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.data.encoded import EncodedSource, ImageDecoder
from athe_tf.data.folder_layout import (
    PARTS,
    check_folder,
    folder_and_share,
    image_files,
    in_threads,
    read_header,
)
from athe_tf.data.images import chosen_part, parallel_map, without_autograph
from athe_tf.data.resize import central_view
from athe_tf.data.splits import Splits, channel_statistics, from_arrays, from_sets, hold_out
from athe_tf.jobs.ownership import is_ours
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import write_text
from athe_tf.utils.graph_checks import checked
from athe_tf.version import __version__

# Decoded images of smaller sets are kept in memory.
IN_MEMORY_BYTES = 4 * 2**30

# Images that the statistics of a set on disk are computed from, and files whose headers are read at a start.
_SAMPLE, _HEADERS = 1000, 16


class FileSet(EncodedSource):
    """Images in files of their own, such as the JPEG files of ImageNet.

    Every epoch is a new permutation of all images, and `start_step` skips them without reading. A file that
    cannot be decoded stops `stream` and `batches` with an error that names it.

    Example:

    >>> import tensorflow as tf
    >>> _ = tf.io.write_file("one.jpg", tf.io.encode_jpeg(tf.zeros([90, 80, 3], tf.uint8)))
    >>> images = athe_tf.data.FileSet(["one.jpg"], [3], (64, 64, 3), num_classes=10, image_size=64)
    >>> images
    FileSet(1 images of shape (64, 64, 3))

    Args:
        paths: The files: JPEG, PNG, GIF or BMP.
        labels: `[N]`, non-negative integers.
        image_shape: `(height, width, channels)` of an image after `image_size`.
        num_classes: Labels have to be below this.
        image_size: Crop the central square and resize it. Defaults to `None`: images unchanged.
        resize_size: Resize the shorter side to this before the crop. Defaults to `None`: the largest square.
    """

    def __init__(
        self,
        paths: Sequence[str],
        labels,
        image_shape: tuple[int, int, int],
        num_classes: int,
        image_size: int | None = None,
        resize_size: int | None = None,
    ):
        super().__init__(ImageDecoder(image_shape[-1]), image_shape, num_classes, image_size, resize_size)
        check(len(paths) > 0, "There are no files. Expected at least one. Received: paths=[].")
        check(
            len(paths) == len(labels),
            f"Files and labels differ in number. Expected {len(paths)} labels. Received: {len(labels)}.",
        )
        self.paths = [str(path) for path in paths]
        self.labels = np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"FileSet({len(self)} images of shape {self.image_shape})"

    def part(self, count: int) -> "FileSet":
        """`count` images chosen at random, always the same ones, in their order."""
        chosen = chosen_part(len(self), count)
        paths = [self.paths[index] for index in chosen]
        sizes = (self.image_size, self.resize_size)
        return FileSet(paths, self.labels[chosen], self.image_shape, self.num_classes, *sizes)

    def fingerprint(self) -> str:
        """The number of images, and a digest of the files' names and sizes, their classes included."""
        rows = zip(self.paths, in_threads(os.path.getsize, self.paths), self.labels, strict=True)
        lines = [f"{os.path.basename(path)} {size} {label}\n" for path, size, label in rows]
        return f"{len(self)} images in files, digest {text_digest(''.join(lines))}"

    def all_labels(self) -> np.ndarray:
        return self.labels

    def _ordered(self, ids):
        ids = tf.data.Dataset.from_tensor_slices(np.asarray(ids, np.int64))
        return ids.map(without_autograph(lambda index: (index, tf.cast(index, tf.int32))))

    def _encoded(self, payload):
        paths, labels = self._tensors
        return tf.io.read_file(tf.gather(paths, payload)), tf.gather(labels, payload)

    @functools.cached_property
    def _tensors(self):
        # Eager tensors that all datasets capture; the scope is needed if the first use is inside a graph.
        with tf.init_scope(), tf.device("CPU"):
            return tf.constant(self.paths), tf.constant(self.labels, tf.int32)

    def _map(self, dataset, read):
        # A graph cannot catch an error, but a dataset can pass over elements that fail: the first id that is
        # not the expected one shows which. The last element of all pairs with `end`, whose id is -1.
        made = super()._map(dataset, read)
        index, *rest = made.element_spec
        end = tf.constant(-1, index.dtype), *(tf.zeros(spec.shape, spec.dtype) for spec in rest)
        made = made.ignore_errors().concatenate(tf.data.Dataset.from_tensors(end))

        @without_autograph
        def compare(expected, found):
            path = tf.gather(self._tensors[0], expected)
            same = tf.cast(found[0], tf.int64) == tf.cast(expected, tf.int64)
            problem = (
                " cannot be read, is not a PNG or JPEG image, or is truncated, too large, or of another size "
                "than the others. "
            )
            remedy = "Remove it, save it again, or use skip_corrupt=True."
            return checked(found[0], same, "The file ", path, problem + remedy), *found[1:]

        ids = dataset.map(without_autograph(lambda index, *_: index))
        return tf.data.Dataset.zip((ids, made)).map(compare)


def unreadable(paths: Sequence[str]) -> list[str]:
    """The files of `paths` that cannot be read or decoded; reads all of them."""
    decode = ImageDecoder(channels=3)

    def width(path):
        attempt = tf.data.Dataset.from_tensors(path).map(
            without_autograph(lambda path: tf.shape(decode(tf.io.read_file(path)))[1])
        )
        failed = tf.data.Dataset.from_tensors(tf.constant(-1))
        return attempt.ignore_errors().concatenate(failed).take(1).get_single_element()

    dataset = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    found = np.concatenate(list(parallel_map(dataset, width).batch(1024).as_numpy_iterator()))
    return [path for path, value in zip(paths, found, strict=True) if value < 0]


def load(
    name: str, *, validation_size, image_size, resize_size, streamed, skip_corrupt, only=None, cache=None
) -> Splits:
    """The splits of `name`, which is `"folder:PATH"`, with the arguments of `athe_tf.data.load`."""
    classes = check_folder(name.removeprefix("folder:"))
    folder, share = folder_and_share(name.removeprefix("folder:"))
    known = {} if cache is None else _read_cache(cache, folder)
    found, known["listed"] = image_files(folder, classes, known.get("listed"), (".",) if share else PARTS)
    found = _divided(*found["."], share) if share else found
    needed = [*found] if only is None else [only if only in found else "train"]
    if skip_corrupt:
        found = _without_corrupt(name, found, needed, known)
    _check_classes(name, found, classes)
    paths = [path for part in found.values() for path in part[0]]
    shown = paths[:: max(1, len(paths) // _HEADERS)]
    some = in_threads(read_header, shown)
    # A color image decides; that all of them are gray, only all of them can say.
    color = any(header.channels == 3 for header in some)
    channels = 3 if color or any(header.channels == 3 for header in in_threads(read_header, paths)) else 1
    if streamed is None:
        pixels = image_size**2 if image_size else max(header.height * header.width for header in some)
        streamed = pixels * channels * len(paths) >= IN_MEMORY_BYTES
    if not streamed:
        files = [path for part in needed for path in found[part][0]]
        in_threads(read_header, files)  # before pixels are allocated
        decoded = _decoded(name, files, channels, image_size, resize_size)
        _check_one_size(name, {x.shape[:2]: path for x, path in zip(decoded, files, strict=True)})
        images = np.split(np.stack(decoded), np.cumsum([len(found[part][0]) for part in needed])[:-1])
        arrays = {part: (x, found[part][1]) for part, x in zip(needed, images, strict=True)}
        facts = {"num_classes": len(classes), "class_names": classes, "validation_size": validation_size}
        return from_arrays(name, arrays, **facts)
    size = (image_size, image_size)
    if image_size is None:
        size = _check_one_size(name, {header[:2]: path for header, path in zip(some, shown, strict=True)})
    sets = {}
    parts = {part: (np.array(found[part][0], object), found[part][1]) for part in needed}
    shape = (*size, channels)
    for part, (files, numbers) in hold_out(name, parts, validation_size).items():
        # The first images must not all be of the first classes. RandomState never changes (NEP 19).
        order = np.random.RandomState(0).permutation(len(files))
        sets[part] = FileSet(
            files[order].tolist(), numbers[order], shape, len(classes), image_size, resize_size
        )
    statistics: Any = ((float("nan"),) * channels,) * 2
    if only is None:
        of = sets.get("train", sets["test"])
        about = text_digest(f"{of.fingerprint()} {shape} {resize_size}")
        if known.get("of") != about:
            known |= {"of": about, "statistics": channel_statistics(of.arrays(max_examples=_SAMPLE)[0])}
        statistics = tuple(map(tuple, known["statistics"]))
    if cache is not None:
        _write_cache(cache, folder, known)
    return from_sets(name, sets, len(classes), classes, statistics)


def _divided(paths: list[str], labels: np.ndarray, share: float) -> dict[str, tuple[list[str], np.ndarray]]:
    """The same share of each class for testing, at least one image, and always the same ones."""
    tested = np.zeros(len(paths), bool)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        order = np.random.RandomState(label).permutation(places)
        tested[order[: max(1, round(share * len(places)))]] = True
    parts = {"train": np.flatnonzero(~tested), "test": np.flatnonzero(tested)}
    return {part: ([paths[i] for i in chosen], labels[chosen]) for part, chosen in parts.items()}


def _read_cache(path, folder: pathlib.Path) -> dict:
    """What an earlier start of the same run has found out about the files; empty if there was none."""
    try:
        found = json.loads(pathlib.Path(path).read_text())
        known = found.pop("athe_tf") == __version__ and found.pop("folder") == str(folder.resolve())
        return found if known else {}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}


def _write_cache(path, folder: pathlib.Path, known: dict) -> None:
    path = pathlib.Path(path)
    if path.parent.is_dir() and (is_ours(path) or not path.exists()):
        with contextlib.suppress(OSError):  # it only saves time
            write_text(path, json.dumps({"athe_tf": __version__, "folder": str(folder.resolve()), **known}))


def _without_corrupt(name, files, needed, known: dict):
    """The files without those of the splits in use that cannot be decoded; known ones are not read again."""
    paths = [path for part in needed for path in files[part][0]]
    about = text_digest("\n".join(paths))
    if known.get("corrupt of") != about:
        known |= {"corrupt of": about, "corrupt": unreadable(paths)}
    bad = set(known["corrupt"])
    if bad:
        warnings.warn(
            f"Left out {len(bad)} files of '{name}' that are no PNG or JPEG images or are truncated: "
            f"{', '.join(sorted(bad)[:5])}{', ...' if len(bad) > 5 else ''}",
            stacklevel=4,
        )
    kept = {part: np.array([path not in bad for path in found[0]]) for part, found in files.items()}
    return {
        part: ([path for path, keep in zip(found[0], kept[part], strict=True) if keep], found[1][kept[part]])
        for part, found in files.items()
    }


def _check_classes(name, files, classes):
    for part, (paths, _) in files.items():
        check(bool(paths), f"No image of `{part}` in '{name}' can be decoded. Check the files.")
    if "train" not in files:
        # Empty folders of a set that is used for testing only number the classes of the others.
        return
    empty = sorted(set(range(len(classes))) - set(files["train"][1].tolist()))
    check(
        not empty,
        f"Some classes of '{name}' have no images in `train`: {[classes[label] for label in empty[:5]]}. "
        "Add images, or remove the folders.",
    )


def _check_one_size(name, sizes: dict) -> tuple[int, int]:
    """The size of all images, from those found and the path of one of each."""
    received = " and ".join(f"{size} in {os.path.basename(path)}" for size, path in [*sizes.items()][:2])
    check(
        len(sizes) == 1,
        f"The images of '{name}' differ in size. Expected `image_size`, to crop and resize them to. "
        f"Received: {received}. Give, for example, image_size=224.",
    )
    return next(iter(sizes))


def _decoded(name, paths, channels, image_size, resize_size) -> list[np.ndarray]:
    """Every image, unchanged or, with `image_size`, as it is evaluated."""
    decode = ImageDecoder(channels)

    def read(path):
        return central_view(decode(tf.io.read_file(path)), image_size, resize_size)

    dataset = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    images: list[np.ndarray] = []
    size = 0
    try:
        for image in parallel_map(dataset, read).prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
            images.append(image)
            size += image.nbytes
            check(
                size < IN_MEMORY_BYTES,
                f"The images of '{name}' do not fit in memory: more than {IN_MEMORY_BYTES / 2**30:.0f} GiB. "
                "Use a smaller `image_size`, or streamed=True.",
            )
    except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
        raise InputError(
            f"The file {paths[len(images)]} is not a PNG or JPEG image, or it is truncated. "
            "Remove it, save it again, or use skip_corrupt=True."
        ) from error
    except tf.errors.OpError as error:
        raise InputError(
            f"The file {paths[len(images)]} cannot be read: {type(error).__name__}. Remove it, or change its "
            "permissions."
        ) from error
    return images
