"""The public API as text: every public name with its signature, and the methods of every public class.

`python -m tests.public_api` prints it; `tests/public_api.txt` holds what was published.
"""

import importlib
import inspect

from tests.public_packages import PACKAGES


def signature_of(thing) -> str:
    """The signature of a function or a class, without defaults that differ from process to process."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=parameter.empty, default=plain(parameter.default))
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


class Shown:
    """A default whose `repr` is the same in every process."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain(default):
    """A default as it is shown."""
    named = default is inspect.Parameter.empty or isinstance(
        default, (str, int, float, bool, tuple, type(None))
    )
    return default if named else Shown(f"<{type(default).__name__}>")


def lines() -> list[str]:
    """One line per name, and one per method."""
    found = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if inspect.ismodule(thing) or not callable(thing):
                found.append(f"{package}.{name}: {type(thing).__name__}")
                continue
            found.append(f"{package}.{name}{signature_of(thing)}")
            if inspect.isclass(thing) and thing.__module__.startswith("athe_tf"):
                found += [f"    {name}.{method}" for method in public_methods(thing)]
    return found


def public_methods(thing: type) -> list[str]:
    """The public methods and properties that a class itself adds, with their signatures."""
    found = []
    for name, member in sorted(vars(thing).items()):
        if name.startswith("_") or not (
            callable(member) or isinstance(member, (property, classmethod, staticmethod))
        ):
            continue
        found.append(f"{name}{'' if isinstance(member, property) else signature_of(getattr(thing, name))}")
    return found


if __name__ == "__main__":
    print("\n".join(lines()))
