"""`examples.npz`: a few adversarial examples to look at."""

import os
import pathlib
import zipfile

import numpy as np

from athe_tf.utils.errors import InputError, check

EXAMPLES = "examples.npz"
#: What a report shows of an adversarial example.
SHOWN = ("clean", "adversarial", "label", "clean_prediction", "adversarial_prediction", "attack", "norm")
#: All arrays; `index` is the position in the data set.
EXAMPLE_ARRAYS = (*SHOWN, "index")
# What the arrays of `examples.npz` contain: kinds of NumPy, and the least and the largest value.
IMAGE_ARRAYS = ("clean", "adversarial")
EXAMPLE_VALUES: dict[str, tuple] = dict.fromkeys(IMAGE_ARRAYS, ("f", 0, 1))
EXAMPLE_VALUES |= {"attack": ("U", None, None), "norm": ("f", 0, 1e6)}
MOST_CLASSES = 10**9
MAX_BYTES = 2**30


def read_examples(folder: pathlib.Path) -> dict[str, np.ndarray] | None:
    """The adversarial examples of `examples.npz`, or `None` if there is no such file."""
    path = folder / EXAMPLES
    if not os.path.lexists(path):
        return None
    check(path.is_file(), f"'{path}' is not a file. Expected an archive of images. Remove it.")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_BYTES:
            raise ValueError(f"it has {size:,} bytes of images, more than {MAX_BYTES:,}")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name]) for name in stored.files}
    except Exception as error:  # zip, its compressions and the format of arrays have errors of their own
        reason = str(error) or type(error).__name__
        raise InputError(f"'{path}' is not an archive of images: {reason}. Remove it.") from error
    check_examples(arrays, f"'{path}'")
    return arrays


def check_examples(arrays: dict[str, np.ndarray], place: str) -> None:
    """Raises `InputError` unless arrays are adversarial examples, or none."""
    if not arrays:
        return
    found = {name: np.asarray(arrays[name]) for name in SHOWN if name in arrays}
    shapes = {name: found[name].shape if name in found else "missing" for name in SHOWN}
    count, image = len(np.atleast_1d(found.get("clean", ()))), np.shape(found.get("clean", ()))
    expected = {name: image if name in IMAGE_ARRAYS else (count,) for name in SHOWN}
    check(
        shapes == expected and len(image) == 4 and all(image[1:]),
        f"{place} are not adversarial examples. Expected arrays of one length, with `clean` and "
        f"`adversarial` of one shape [N, H, W, C]. Received: {shapes}. Remove them.",
    )
    for name, array in found.items():
        kinds, least, most = EXAMPLE_VALUES.get(name, ("iu", 0, MOST_CLASSES))
        fits = array.dtype.kind in kinds
        fits = fits and (kinds == "U" or bool(((array >= least) & (array <= most)).all()))  # not for NaN
        expectation = "texts" if kinds == "U" else f"numbers from {least} to {most}"
        check(
            fits,
            f"{place} are not adversarial examples. Expected {expectation} in `{name}`. Received: "
            f"{array.dtype}, {_range(array)}. Remove them.",
        )


def _range(array: np.ndarray) -> str:
    if array.dtype.kind not in "fiu" or not array.size:
        return f"shape {array.shape}"
    return f"from {array.min():g} to {array.max():g}"
