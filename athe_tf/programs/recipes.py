"""The recipes of `configs/` by name: `--flagfile=cifar_trades_he`.

In a checkout they are in `configs/`; `setup.py` copies them into an installed package.
"""

import difflib
import pathlib

from athe_tf.utils.errors import InputError

_PACKAGE = pathlib.Path(__file__).parents[1]
_FLAG = "--flagfile"
SUFFIX = ".flags"


def recipe_folder() -> pathlib.Path:
    """The folder of the recipes and of `papers.json`."""
    installed = _PACKAGE / "recipes"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def recipes() -> dict[str, pathlib.Path]:
    """The files of all recipes by name."""
    return {path.stem: path for path in sorted(recipe_folder().glob(f"*{SUFFIX}"))}


def with_recipes(arguments: list[str]) -> list[str]:
    """The same command line, with the files of recipes that `--flagfile` names.

    A file of that name wins. What is neither a file nor a recipe is an `InputError`.
    """
    found = list(arguments)
    for index, argument in enumerate(found):
        # absl accepts one dash, and the value as the next argument.
        flag, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if f"--{flag}" != _FLAG or not argument.startswith("-"):
            continue
        if equals:
            found[index] = f"{_FLAG}={_file_of(value)}"
        elif index + 1 < len(found):
            found[index + 1] = _file_of(found[index + 1])
    return found


def _file_of(name: str) -> str:
    # absl expands the home folder.
    path = pathlib.Path(name).expanduser()
    if not name or path.exists():
        return name
    known = recipes()
    recipe = path.name.removesuffix(SUFFIX)
    if path.name == name and recipe in known:
        return str(known[recipe])
    if recipe in known:
        raise InputError(
            f"The file of --flagfile does not exist. Received: '{name}'. Use the recipe of that name: "
            f"--flagfile={recipe}."
        )
    nearest = difflib.get_close_matches(recipe, known, n=5, cutoff=0.5) or list(known)[:5]
    raise InputError(
        f"There is no file and no recipe '{name}'. Expected the path of a file, or one of {len(known)} "
        f"recipes by name, such as {', '.join(nearest)}. Received: --flagfile={name}."
    )
