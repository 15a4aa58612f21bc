"""Names such as "trades" or "wrn-34-10", and the objects they stand for.

A registry knows its names without importing what they stand for, so that a command line with a typo is
answered before TensorFlow starts.
"""

import difflib
import importlib
from collections.abc import Mapping

from athe_tf.utils.errors import InputError


def unknown_name(kind: str, name: str, available, also=()) -> InputError:
    """The error for a name that nobody registered, with the nearest one that somebody did.

    Args:
        kind: What the name stands for.
        name: The name.
        available: The names that there are.
        also: Further names that may be meant, too many or too plain to be listed.
    """
    hint = did_you_mean(name, [*available, *also])
    return InputError(f"Unknown {kind} '{name}'.{hint} Available: {', '.join(sorted(available))}.")


def did_you_mean(name: str, names) -> str:
    """A question for the end of a message, if one of `names` is near; else nothing."""
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" Did you mean '{nearest[0]}'?" if nearest else ""


class Registry:
    """Maps names to objects that are imported on first use.

    Args:
        kind: What the names stand for, in the words of an error message: "framework", "attack".
        package: The package whose modules hold the objects; pass `__name__`.
        entries: From a name to `"module:object"`, the module relative to `package`.
    """

    def __init__(self, kind: str, package: str, entries: Mapping[str, str]):
        self.kind = kind
        self.package = package
        self.entries = dict(entries)

    def __contains__(self, name) -> bool:
        return name in self.entries

    def __iter__(self):
        return iter(self.entries)

    def check(self, name: str) -> None:
        """Raises `InputError`, with the nearest known name, unless `name` is registered."""
        if name not in self.entries:
            raise unknown_name(self.kind, name, self.entries)

    def get(self, name: str):
        """The object that `name` stands for."""
        self.check(name)
        module, _, attribute = self.entries[name].partition(":")
        return getattr(importlib.import_module(f"{self.package}.{module}"), attribute)

    def attribute(self, name: str):
        """Serves a package's `__getattr__`: its registered objects by their Python names."""
        for target in self.entries.values():
            module, _, attribute = target.partition(":")
            if attribute == name:
                return getattr(importlib.import_module(f"{self.package}.{module}"), name)
        raise AttributeError(f"module '{self.package}' has no attribute '{name}'")
