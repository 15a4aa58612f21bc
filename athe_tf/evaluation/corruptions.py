"""Accuracy under common corruptions: 15 corruptions at 5 severities, and the means that papers quote."""

import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.results import misclassified
from athe_tf.data.corruptions.names import CORRUPTIONS, GROUPS, SEVERITIES, STANDARD, check_severity
from athe_tf.data.corruptions.sources import Source, open_source
from athe_tf.jobs.journal import Journal
from athe_tf.models.victim import Victim
from athe_tf.saving.opening import victim as as_victim
from athe_tf.utils.digests import text_digest
from athe_tf.utils.errors import InputError, cause, check, check_integer
from athe_tf.utils.images_and_labels import check_classes

# Mean error of AlexNet over the five severities of ImageNet-C (Hendrycks and Dietterich, ICLR 2019).
ALEXNET_ERRORS = {
    "gaussian_noise": 0.886428, "shot_noise": 0.894468, "impulse_noise": 0.922640,
    "defocus_blur": 0.819880, "glass_blur": 0.826268, "motion_blur": 0.785948, "zoom_blur": 0.798360,
    "snow": 0.866816, "frost": 0.826572, "fog": 0.819324, "brightness": 0.564592,
    "contrast": 0.853204, "elastic_transform": 0.646056, "pixelate": 0.717840, "jpeg_compression": 0.606500,
}  # fmt: skip


def evaluate_corruptions(
    model,
    images=None,
    labels=None,
    *,
    source: str = "generated",
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] = SEVERITIES,
    batch_size: int = 128,
    seed: int = 0,
    data_dir=None,
    resize_size: int | None = None,
    journal: Journal | None = None,
    progress: Callable | None = None,
) -> dict:
    """Measures a model on corrupted images.

    Example:

    >>> found = evaluate_corruptions(net, images, labels, corruptions=["fog", "snow"], severities=[1, 5])
    >>> found["accuracy"]["fog"]  # one value per severity
    >>> found["mca"]

    Args:
        model: Anything that maps images to logits.
        images: Clean images `[N, H, W, C]`, uint8 or float in [0, 1]. Published sources have images of their
            own, and only use the number and the size of these.
        labels: `[N]`.
        source: `"generated"`; `"folder:PATH"`, the `.npy` files of CIFAR-10-C or CIFAR-100-C or the folders
            of JPEG files of ImageNet-C; or `"cifar10_corrupted"` or `"imagenet2012_corrupted"` of TensorFlow
            Datasets.
        corruptions: Names of corruptions. Defaults to the fifteen standard ones.
        severities: Severities from 1 to 5. Defaults to all.
        batch_size: Images per forward pass. Defaults to 128.
        seed: Seed of generated corruptions. Defaults to 0.
        data_dir: Where TensorFlow Datasets keeps its data. Defaults to its own choice.
        resize_size: For folders of ImageNet-C: resize the images to this before the crop of the model's size,
            as the released code of the HE paper does with 256. Defaults to `None`: unchanged.
        journal: Keeps what is measured, so that an interrupted run resumes from there.
        progress: Called after every batch with `(cell, images done, images in total, correct, seen)`: a cell
            such as `"fog 3"`, and how many of the images seen in it were classified correctly.

    Returns:
        A dictionary for `evaluation.json`:

        * `accuracy`: from each corruption to a list, one value per severity;
        * `mca`: the mean over all cells of the standard corruptions, and `mean_error`, 1 minus that, which
          papers on CIFAR call the (unnormalized) corruption error;
        * `mce`: only on ImageNet-C with all its cells, the mean over corruptions of the ratio of the error to
          AlexNet's;
        * `groups`: the mean of noise, blur, weather and digital;
        * `generated`, `source`, `protocol`, `examples`, `severities`, and `remarks` if there are any.
    """
    check_integer("batch_size", batch_size, 1)
    names = _names(corruptions)
    levels = _severities(severities)
    opened = open_source(source, images, labels, seed=seed, data_dir=data_dir, resize_size=resize_size)
    opened.check(names, levels)
    victim, cells = as_victim(model), [(name, severity) for name in names for severity in levels]
    # From a cell to `[correct, seen]`.
    known = {} if journal is None else _measured_before(journal)
    accuracy: dict[str, list[float]] = {name: [] for name in names}
    examples = 0
    for done, (name, severity) in enumerate(cells):
        label = f"{name} {severity}"
        if label not in known:
            for correct, seen in _counts(victim, opened, opened.batches(name, severity, batch_size)):
                known[label] = np.array([correct, seen], np.int64)
                if progress is not None:
                    # All cells have one size, which is known after the first.
                    size = max(examples, seen)
                    progress(label, done * size + seen, len(cells) * size, correct, seen)
            if journal is not None:
                journal.save(known)
        correct, examples = known[label].tolist()
        accuracy[name].append(correct / examples)
    return _summary(accuracy, levels, source, opened, examples)


def _counts(victim: Victim, source: Source, batches) -> Iterator[tuple[int, int]]:
    """After every batch, how many images were classified correctly so far, and how many were seen."""
    correct = seen = 0
    for x, y in batches:
        correct += int((~misclassified(_logits(victim, source, x, y), y)).numpy().sum())
        seen += len(y)
        yield correct, seen


def _logits(victim: Victim, source: Source, x, y):
    try:
        logits = victim.compiled_logits(tf.convert_to_tensor(x, tf.float32))
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"The model '{victim.name}' does not take images of shape {x.shape[1:]}: "
            f"{cause(error)}. Use corrupted images of the size that it takes."
        ) from error
    classes, expected = int(logits.shape[-1]), source.num_classes
    remedy = f"Use corruptions of the data set that '{victim.name}' was trained on."
    check(
        expected in (None, classes),
        f"The model '{victim.name}' has {classes} classes, and the corrupted images have "
        f"{expected}. {remedy}",
    )
    check_classes(np.asarray(y), classes, remedy=remedy)
    return logits


def _measured_before(journal: Journal) -> dict[str, np.ndarray]:
    found = journal.load() or {}
    for label, counts in found.items():
        fits = counts.shape == (2,) and counts.dtype.kind == "i"
        if not fits or not 0 <= counts[0] <= counts[1] or counts[1] < 1:
            raise journal.damaged(f"expected two counts for '{label}', received {counts.tolist()}")
    return found


def source_identity(source: str, data_dir=None) -> dict:
    """What the state of a measurement records about its source, so that other images are noticed.

    Published files are known by their names, sizes and times of change: they have gigabytes.
    """
    if source == "generated":
        return {"source": source}
    if not source.startswith("folder:"):
        place = None if data_dir is None else str(pathlib.Path(data_dir).expanduser().resolve())
        return {"source": source, "data_dir": place}
    folder = pathlib.Path(source.removeprefix("folder:")).expanduser()
    # The files of CIFAR-10-C; of ImageNet-C, the folders of the severities.
    found = (*folder.glob("*.npy"), *folder.glob("*/[1-5]"), *folder.glob("*/*/[1-5]"))
    files = [(str(path.relative_to(folder)), path.stat()) for path in sorted(found)]
    listed = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files]
    return {"source": source, "files": text_digest("\n".join(listed))}


def _names(corruptions) -> list[str]:
    names = list(STANDARD if corruptions is None else corruptions)
    check(len(names) > 0, "There are no corruptions. Expected at least one. Received: corruptions=[].")
    for name in names:
        CORRUPTIONS.check(name)
    return list(dict.fromkeys(names))


def _severities(severities) -> list[int]:
    levels = list(severities)
    check(len(levels) > 0, "There are no severities. Expected some of 1 to 5. Received: severities=[].")
    for severity in levels:
        check_severity(severity)
    return sorted({int(severity) for severity in levels})


def _summary(accuracy: dict[str, list[float]], levels, source: str, opened: Source, examples: int) -> dict:
    standard = [name for name in STANDARD if name in accuracy]
    # Extra corruptions count only if there are no others.
    mean = float(np.mean([accuracy[name] for name in standard or accuracy]))
    complete = len(standard) == len(STANDARD) and levels == list(SEVERITIES)
    remarks = [opened.remark] if opened.remark else []
    if not complete:
        remarks.append(
            f"The mean is over {len(standard)} of {len(STANDARD)} standard corruptions and {len(levels)} of "
            f"{len(SEVERITIES)} severities: it cannot be compared with published ones."
        )
    present = {group: [accuracy[n] for n in names if n in accuracy] for group, names in GROUPS.items()}
    groups = {group: float(np.mean(values)) for group, values in present.items() if values}
    result = {
        "generated": opened.generated, "source": source, "protocol": opened.protocol, "examples": examples,
        "severities": levels, "accuracy": accuracy, "groups": groups, "mca": mean, "mean_error": 1 - mean,
    }  # fmt: skip
    result |= {"mce": corruption_error(accuracy)} if complete and opened.imagenet else {}
    return result | ({"remarks": remarks} if remarks else {})


def corruption_error(accuracy: dict[str, list[float]]) -> float:
    """mCE: the mean over the standard corruptions of the error over AlexNet's, both over all severities.

    Example:

    >>> round(corruption_error({name: [1 - error] * 5 for name, error in ALEXNET_ERRORS.items()}), 6)
    1.0
    """
    return float(np.mean([(1 - np.mean(accuracy[name])) / ALEXNET_ERRORS[name] for name in STANDARD]))
