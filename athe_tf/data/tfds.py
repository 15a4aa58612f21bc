"""Any image classification set of TensorFlow Datasets, by its name."""

import json
import os
import pathlib
import re
import socket
import urllib.parse
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from athe_tf.data.encoded import ImageDecoder
from athe_tf.data.images import parallel_map
from athe_tf.data.names import base_name, set_and_split, unknown_data_set
from athe_tf.data.resize import central_view
from athe_tf.data.splits import Splits, channel_statistics, from_arrays, from_sets, held_out_size
from athe_tf.data.streamed import Files, StreamedSet
from athe_tf.utils.errors import InputError, check, described

# Sets whose decoded images need less than this are kept in memory.
IN_MEMORY_BYTES = 4 * 2**30

# Seconds that a host may take to answer before the set counts as unreachable.
REACH_SECONDS = 10.0

# Means and standard deviations that the literature uses, so that models can be compared.
STATISTICS = {
    **dict.fromkeys(("cifar10", "cifar10_corrupted"), ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    **dict.fromkeys(
        ("imagenet2012", "imagenet2012_corrupted", "imagenette"),
        ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ),
    "mnist": ((0.1307,), (0.3081,)),
    "svhn_cropped": ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
}


def load(name: str, data_dir, *, validation_size, image_size, resize_size, streamed, only=None) -> Splits:
    """The splits of a TensorFlow Datasets set, with the arguments of `athe_tf.data.load`."""
    builder = _builder(name, data_dir)
    keys = _keys(name, builder)
    height, width, channels = builder.info.features[keys[0]].shape
    check(
        image_size is not None or (height is not None and width is not None),
        f"The images of '{name}' differ in size. Expected `image_size`, to crop and resize them to. "
        "Received: image_size=None. Give, for example, image_size=224.",
    )
    image_shape = (image_size or height, image_size or width, channels)
    _prepare(name, builder)
    try:
        sizes = image_size, resize_size
        return _load(name, builder, keys, image_shape, validation_size, sizes, streamed, only)
    except tf.errors.OpError as error:
        raise _damaged(name, builder.data_dir, error) from error


def _load(name, builder, keys, image_shape, validation_size, sizes, streamed, only):
    parts = _parts(name, builder, keys)
    splits, label = builder.info.splits, builder.info.features[keys[1]]
    class_names, statistics = tuple(label.names) if label.names else None, STATISTICS.get(base_name(name))
    counts = {part: splits[split].num_examples if splits else 0 for part, split in parts.items()}
    if streamed is None:
        streamed = sum(counts.values()) * int(np.prod(image_shape)) >= IN_MEMORY_BYTES
    if not streamed:
        needed = parts if only is None else [only if only in parts else "train"]
        arrays = {part: _read_all(builder, parts[part], keys, image_shape, sizes) for part in needed}
        facts = {"class_names": class_names, "statistics": statistics, "validation_size": validation_size}
        return from_arrays(name, arrays, num_classes=label.num_classes, **facts)
    if "train" in parts:
        held = held_out_size(name, counts["train"], validation_size, counts.get("validation"))
        if held:
            # TFDS shuffled the examples when it wrote them: the first are as good as any.
            parts = {**parts, "train": f"train[{held}:]", "validation": f"train[:{held}]"}
    sets = {
        part: _streamed_set(builder, split, keys, image_shape, sizes, label.num_classes)
        for part, split in parts.items()
        if only in (None, part)
    }
    if statistics is None:
        some = sets["train"] if "train" in sets else [*sets.values()][-1]
        statistics = channel_statistics(some.arrays(10_000 if only is None else 100)[0])
    return from_sets(name, sets, label.num_classes, class_names, statistics)


def _builder(name, data_dir):
    check_features(data_dir or tfds.core.constants.DATA_DIR, base_name(name))
    try:
        return tfds.builder(set_and_split(name)[0], data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        known = tfds.list_builders(with_community_datasets=False)
        raise unknown_data_set(name, ("digits", *known)) from error
    except (ValueError, AssertionError) as error:
        # An unknown configuration or version; TFDS names the ones there are.
        raise InputError(f"TensorFlow Datasets cannot make '{name}'. {error}") from error
    # Damaged metadata make TFDS and protobuf raise errors of many kinds.
    except Exception as error:
        raise _damaged(name, data_dir, error) from error


def _damaged(name, folder, error) -> InputError:
    return InputError(
        f"The files of the data set '{name}' in {folder} cannot be read ({described(error)}). They may be "
        "incomplete or damaged: prepare or copy the set again."
    )


def _keys(name, builder):
    """The keys of the images and labels in an example."""
    features = builder.info.features
    keys = builder.info.supervised_keys or ("image", "label")
    kinds = (tfds.features.Image, tfds.features.ClassLabel)
    found = len(keys) == 2 and all(
        isinstance(key, str) and key in features and isinstance(features[key], kind)
        for key, kind in zip(keys, kinds, strict=False)
    )
    check(
        found,
        f"The data set '{name}' is not an image classification set. Expected an image and a class label. "
        f"Received: {features}.",
    )
    check(
        features[keys[0]].np_dtype == np.uint8,
        f"The images of '{name}' have an unsupported type. Expected uint8. "
        f"Received: {np.dtype(features[keys[0]].np_dtype)}. Convert them and use npz:PATH.",
    )
    return keys


def _prepare(name, builder):
    if builder.is_prepared():
        return
    try:
        _check_reachable(builder)
        builder.download_and_prepare()
    # Whatever went wrong (no network, no disk space, a file to download by hand), the remedy is the same.
    except Exception as error:
        by_hand = " ".join((builder.MANUAL_DOWNLOAD_INSTRUCTIONS or "").split())
        if by_hand:
            raise InputError(
                f"The data set '{name}' is not in {builder.data_dir}, and some of its files have to be "
                f"downloaded by hand. Expected them in {builder.data_dir_root}/downloads/manual: {by_hand} "
                "Call again to prepare it, give a prepared copy as `data_dir`, or use folder:PATH."
            ) from error
        raise InputError(
            f"The data set '{name}' is not in {builder.data_dir}, and it could not be downloaded "
            f"({described(error)}). Give a prepared copy as `data_dir`, or use npz:PATH."
        ) from error


def _check_reachable(builder) -> None:
    """Raises `OSError` if no host of the set answers; TFDS itself would retry each file for minutes."""
    if any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ):
        return
    addresses = {urllib.parse.urlsplit(url) for url in getattr(builder, "url_infos", None) or {}}
    failure: OSError | None = None
    for host, port in {(a.hostname, a.port or (80 if a.scheme == "http" else 443)) for a in addresses}:
        try:
            socket.create_connection((host, port), timeout=REACH_SECONDS).close()
            return
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure


def _parts(name, builder, keys):
    """From our splits to the set's own, such as `{"train": "train", "test": "validation"}`."""
    # A mocked builder has no record of its splits; these are the usual ones.
    splits, chosen = tuple(builder.info.splits) or ("train", "test"), set_and_split(name)[1]
    if chosen is not None:
        known = chosen.partition("[")[0] in splits
        check(known, f"The data set '{name}' has no split '{chosen}'. Expected one of {list(splits)}.")
        return {"test": chosen}
    parts = {"train": "train"} if "train" in splits else {}
    tests = [part for part in ("test", "validation") if part in splits]
    # ImageNet's test images have the label -1.
    labeled = [part for part in tests if int(next(iter(_dataset(builder, part, keys)))[1]) >= 0]
    check(
        bool(labeled),
        f"The data set '{name}' has no test images. Expected a split 'test' or 'validation' with labels. "
        f"Received: {list(splits)}.",
    )
    parts["test"] = labeled[0]
    if len(labeled) == 2 and "train" in parts:
        parts["validation"] = "validation"
    return parts


def _dataset(builder, split, keys):
    # One reader: examples come in the order of the files.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    dataset = builder.as_dataset(split=split, shuffle_files=False, read_config=config)
    return dataset.map(lambda example: (example[keys[0]], example[keys[1]]))


def _read_all(builder, split, keys, image_shape, sizes):
    dataset = parallel_map(_dataset(builder, split, keys), lambda x, y: (central_view(x, *sizes), y))
    count = int(dataset.cardinality())
    images, labels = np.empty([count, *image_shape], np.uint8), np.empty([count], np.int64)
    done = 0
    for x, y in dataset.batch(1024).prefetch(1):
        images[done : done + len(x)], labels[done : done + len(x)] = x, y
        done += len(x)
    check(
        done == count,
        f"The split '{split}' of '{builder.name}' in {builder.data_dir} has {done} records, and its metadata "
        f"say {count}. Prepare or copy the set again.",
    )
    return images, labels


def _streamed_set(builder, split, keys, image_shape, resizing, num_classes):
    file_format = builder.info.file_format
    check(
        file_format == tfds.core.FileFormat.TFRECORD,
        f"A set that does not fit in memory is read from TFRecord files. Received: {file_format}. "
        "Prepare the set with the file format 'tfrecord'.",
    )
    instructions = builder.info.splits[split].file_instructions
    features = builder.info.features
    skip = {keys[0]: tfds.decode.SkipDecoding()}

    def parse(record):
        example = features.deserialize_example(record, decoders=skip)
        return example[keys[0]], example[keys[1]]

    for file in instructions:
        check(
            tf.io.gfile.exists(str(file.filename)),
            f"The file {file.filename} of the data set is missing. Prepare or copy the set again.",
        )
    files = Files(
        paths=[str(file.filename) for file in instructions],
        skip=[file.skip for file in instructions],
        take=[file.examples_in_shard - file.skip if file.take == -1 else file.take for file in instructions],
    )
    return StreamedSet(files, parse, ImageDecoder(image_shape[-1]), image_shape, num_classes, *resizing)


_CLASS_KEYS = ("type", "pythonClassName", "python_class_name")
_OWN_FEATURES = re.compile(r"tensorflow_datasets\.core\.features\.[A-Za-z0-9_.]+")


def check_features(data_dir: str | pathlib.Path, base: str) -> None:
    """Raises `InputError` if a set in `data_dir` has features of classes other than TFDS' own.

    TFDS imports any module that a `features.json` names, so that the folder of a stranger could run code.
    Sets are in `DATA_DIR/NAME/VERSION` or `DATA_DIR/NAME/CONFIG/VERSION`; `base` is only the NAME.
    """
    folder = pathlib.Path(data_dir).expanduser() / base
    patterns = ("features.json", "*/features.json", "*/*/features.json")
    for file in sorted(file for pattern in patterns for file in folder.glob(pattern)):
        try:
            names = list(_class_names(json.loads(file.read_text())))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(
                f"The file {file} of the data set cannot be read: {error}. Prepare or copy the set again."
            ) from error
        foreign = [name for name in names if not _OWN_FEATURES.fullmatch(name)]
        check(
            not foreign,
            f"The file {file} names a class that is not a feature of TensorFlow Datasets, and loading it "
            f"would run its code. Received: {foreign[:1]}. Use a set with features of TFDS, or npz:PATH.",
        )


def _class_names(value) -> Iterator[str]:
    """All names of classes in the content of a `features.json`, texts that are JSON themselves included."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key in _CLASS_KEYS:
                yield part if isinstance(part, str) else repr(part)
            else:
                yield from _class_names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _class_names(part)
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            inner = json.loads(value)
        except ValueError:
            return
        yield from _class_names(inner)
