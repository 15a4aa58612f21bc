"""The names of the programs: `bin/train` in a checkout, `athe-tf-train` where they are installed."""

import os
import re
import sys

_INSTALLED = "athe-tf-"
# A name of a program, and not a part of a path.
_NAME = re.compile(r"(?<![\w./'\"=-])bin/(analyze|evaluate|export|import_torch|report|reproduce|train)\b")
_RECIPE = re.compile(r"configs/(\w+)\.flags")


def as_started(text: str) -> str:
    """A text that names programs as `bin/NAME`, with the names that the user knows them by.

    Example:

    >>> as_started("bin/train: interrupted.")
    'bin/train: interrupted.'
    """
    return _NAME.sub(rf"{_INSTALLED}\1", text) if _is_installed() else text


def examples_as_started(text: str) -> str:
    """Command lines as the user can give them: an installed program has its recipes by name only."""
    return as_started(_RECIPE.sub(r"\1", text) if _is_installed() else text)


def _is_installed() -> bool:
    return os.path.basename(sys.argv[0]).startswith(_INSTALLED)
