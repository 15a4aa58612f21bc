"""The recipes of `configs/` by name: `--flagfile=cifar_trades_he`.

In a checkout they are in `configs/`; `setup.py` copies them into an installed package. A file includes others
by `--flagfile=OTHER`, a path from its own folder or the name of a recipe; later flags override earlier ones.
"""

import difflib
import pathlib

from athe_tf.utils.errors import InputError, first_line

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
    """The same command line, with the lines of the files and recipes that `--flagfile` names in its place.

    A file of that name wins. What is neither a file nor a recipe is an `InputError`.
    """
    found, rest = [], list(arguments)
    while rest and (argument := rest.pop(0)) != "--":
        # absl accepts one dash, and the value as the next argument.
        flag, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if f"--{flag}" != _FLAG or not argument.startswith("-") or not (equals or rest):
            found.append(argument)
        elif name := value if equals else rest.pop(0):
            found += _lines(_file_of(name), ())
    return found + (["--", *rest] if "--" in arguments else [])


def _lines(path: pathlib.Path, outer: tuple[pathlib.Path, ...]) -> list[str]:
    """The flags in a file, with those of the files that it includes; `outer` are the files around it."""
    if path in outer:
        raise InputError(f"The file of --flagfile includes itself. Received: '{path}'.")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The file of --flagfile cannot be opened: {first_line(error)}: '{path}'."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"The file of --flagfile is not a text in UTF-8: {error.reason} at byte {error.start}. "
            "Save it as UTF-8."
        ) from error
    found = []
    for line in map(str.strip, text.splitlines()):
        flag, equals, name = line.partition("=")
        if equals and flag in (_FLAG, _FLAG[1:]):
            beside = path.parent / name
            found += _lines(beside if beside.is_file() else _file_of(name), (*outer, path))
        elif line and not line.startswith(("#", "//")):
            found.append(line)
    return found


def _file_of(name: str) -> pathlib.Path:
    path = pathlib.Path(name).expanduser()
    if path.exists():
        return path
    known = recipes()
    recipe = path.name.removesuffix(SUFFIX)
    if path.name == name and recipe in known:
        return known[recipe]
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
