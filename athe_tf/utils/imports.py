"""Objects from the user's own modules, by `module:Name`."""

import importlib
import os
import sys
from typing import Any

from athe_tf.utils.errors import InputError, check


def is_import_path(name: str) -> bool:
    """Whether a name has the form `module:Name`, so that it stands for an object outside this library.

    Example:

    >>> is_import_path("my_package.attacks:MyAttack"), is_import_path("pgd-20"), is_import_path("npz:a/b.npz")
    (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def import_object(name: str, kind: str = "object") -> Any:
    """Imports what `module:Name` stands for.

    Modules are also found in the current folder, as `python -m` finds them.

    Example:

    >>> import_object("math:sqrt", "function")(9.0)
    3.0

    Args:
        name: A module, a colon, and a name in that module.
        kind: What is expected, in the words of an error message: "attack", "model".
    """
    check(is_import_path(name), f"Expected `module:Name` for the {kind}. Received: '{name}'.")
    module, _, attribute = name.partition(":")
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"Cannot import the {kind} '{name}': {error}. Expected `module:Name`, with the module in the "
            "current folder or on PYTHONPATH."
        ) from error
