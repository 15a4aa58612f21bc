"""What the files of a prepared TensorFlow Datasets set say, checked before TFDS reads them; no TensorFlow.

TFDS imports any module that a `features.json` names, so that the folder of a stranger could run code.
"""

import json
import pathlib
import re
from collections.abc import Iterator

from athe_tf.utils.errors import InputError, check

_CLASS_KEYS = ("type", "pythonClassName", "python_class_name")
_OWN_FEATURES = re.compile(r"tensorflow_datasets\.core\.features\.[A-Za-z0-9_.]+")


def check_features(data_dir: str | pathlib.Path, base: str) -> None:
    """Raises `InputError` if a set in `data_dir` has features of other classes than those of TFDS itself.

    Args:
        data_dir: Where the sets are: `DATA_DIR/NAME/VERSION` or `DATA_DIR/NAME/CONFIG/VERSION`.
        base: The name of the set, without configuration and version.
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
