"""Which file or folder the name of a model means; the files of a training run that others need; the zoo.

Cards of the zoo say how each of its models was trained, and what was measured. No TensorFlow.
"""

import contextlib
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any

from athe_tf.utils.errors import InputError
from athe_tf.utils.registry import did_you_mean, is_import_path, unknown_name

if TYPE_CHECKING:
    import keras

#: The settings of a training run, and its classifiers in the order in which they are preferred.
RUN_CONFIG = "config.json"
RUN_MODELS = ("best.keras", "final.keras")
#: The file by which the folder of a SavedModel is known.
SAVED_MODEL = "saved_model.pb"
#: The models of `athe_tf.zoo`.
FOLDER = pathlib.Path(__file__).parents[1] / "zoo" / "files"
#: The start of `--model=zoo:NAME`.
PREFIX = "zoo:"


def find_model(path: str | os.PathLike) -> pathlib.Path:
    """The file or folder that `--model=` means: for a workdir, its best model; for `zoo:NAME`, its file."""
    if in_zoo(path):
        return model_file(str(path).removeprefix(PREFIX))
    path = pathlib.Path(path)
    if not path.exists():
        siblings: list[str] = []
        with contextlib.suppress(OSError):  # a folder that cannot be read
            siblings = [str(one) for one in path.parent.iterdir() if not one.name.startswith(".")]
        raise InputError(
            f"There is no model at '{path}'.{did_you_mean(str(path), siblings)} Expected a .keras file, a "
            f"SavedModel folder or the folder of a run{', or module:function' if ':' in str(path) else ''}."
        )
    if (path / RUN_CONFIG).exists() and not (path / SAVED_MODEL).exists():
        for name in RUN_MODELS:
            if (path / name).exists():
                return path / name
        raise InputError(f"The run in '{path}' has no model yet. Wait for the end of its first epoch.")
    return path


def is_imported(name: str | os.PathLike) -> bool:
    """Whether `--model=` means `module:function`; a file of that name and the zoo come first."""
    return is_import_path(str(name)) and not pathlib.Path(name).exists() and not in_zoo(name)


def in_zoo(name: str | os.PathLike) -> bool:
    """Whether `--model=` means a model of the zoo, as `zoo:NAME`."""
    return str(name).startswith(PREFIX)


def names() -> list[str]:
    """The names of the models.

    Example:

    >>> "cifar10-fast-at-he-wrn10-1" in athe_tf.zoo.names()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.keras"))


def model_file(name: str) -> pathlib.Path:
    """The `.keras` file of a model."""
    if name not in names():
        raise unknown_name("zoo model", name, names())
    return FOLDER / f"{name}.keras"


def load(name: str) -> "keras.Model":
    """Loads a model of the zoo: a classifier of images in [0, 1] that outputs logits.

    Example:

    >>> net = athe_tf.zoo.load("cifar10-fast-at-he-wrn10-1")
    >>> net.input_shape
    (None, 32, 32, 3)

    Args:
        name: One of `athe_tf.zoo.names()`.
    """
    from athe_tf.saving.keras_file import load_model  # names and cards need no TensorFlow

    return load_model(model_file(name))


def card(name: str) -> dict[str, Any]:
    """How a model was trained, and its accuracies.

    Keys: `network`, `dataset`, `norm`, `epsilon`, `framework`, `head`, `scale`, `margin`, `seed` and `run`
    tell how it was trained, `evaluation` has the accuracies, their intervals and the command that measured
    them, `flags` whether each of the first test images is classified correctly, clean and under PGD-20, and
    `probe` a few 8-bit images with the model's logits.

    Example:

    >>> athe_tf.zoo.card("cifar10-fast-at-he-wrn10-1")["head"]
    'he'

    Args:
        name: One of `names()`.
    """
    return json.loads(model_file(name).with_suffix(".json").read_text())


def table() -> str:
    """The accuracies of all models in percent, as a table in Markdown.

    Example:

    >>> print(athe_tf.zoo.table().splitlines()[0])
    | model | images | clean | pgd-20 | worst case |
    """
    lines = ["| model | images | clean | pgd-20 | worst case |", "|---|---|---|---|---|"]
    for name in names():
        measured = card(name)["evaluation"]
        shares = (measured["accuracy"][column] for column in ("clean", "pgd-20", "worst_case"))
        cells = [name, f"{measured['examples']:,}", *(f"{100 * share:.1f}" for share in shares)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
