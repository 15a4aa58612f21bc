"""Which file or folder the name of a model means, and the files of a training run that others ask for."""

import contextlib
import os
import pathlib

from athe_tf.saving import zoo
from athe_tf.utils.errors import InputError
from athe_tf.utils.registry import did_you_mean, is_import_path

#: The settings of a training run, and its classifiers in the order in which they are preferred.
RUN_CONFIG = "config.json"
RUN_MODELS = ("best.keras", "final.keras")
#: The file by which the folder of a SavedModel is known.
SAVED_MODEL = "saved_model.pb"


def find_model(path: str | os.PathLike) -> pathlib.Path:
    """The file or folder that `--model=` means: for a workdir, its best model; for `zoo:NAME`, its file."""
    if in_zoo(path):
        return zoo.model_file(str(path).removeprefix(zoo.PREFIX))
    path = pathlib.Path(path)
    if not path.exists():
        siblings = _visible(path.parent)
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


def _visible(folder: pathlib.Path) -> list[str]:
    """What a user sees in a folder; nothing if it cannot be read."""
    with contextlib.suppress(OSError):
        return [str(path) for path in folder.iterdir() if not path.name.startswith(".")]
    return []


def is_imported(name: str | os.PathLike) -> bool:
    """Whether `--model=` means `module:function`; a file of that name and the zoo come first."""
    return is_import_path(str(name)) and not pathlib.Path(name).exists() and not in_zoo(name)


def in_zoo(name: str | os.PathLike) -> bool:
    """Whether `--model=` means a model of the zoo, as `zoo:NAME`."""
    return str(name).startswith(zoo.PREFIX)
