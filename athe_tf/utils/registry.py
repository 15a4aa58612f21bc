"""Names such as "trades" or "wrn-34-10", and the objects they stand for.

A registry knows its names without importing what they stand for, so that a typo is reported before TensorFlow
starts.
"""

import ast
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import lazy_loader

from athe_tf.utils.errors import InputError, check


def unknown_name(kind: str, name: str, available: Iterable[str], also: Iterable[str] = ()) -> InputError:
    """The error for an unknown name, with the most similar one of those available and `also` known."""
    known = sorted(available)
    hint = did_you_mean(name, [*known, *also])
    return InputError(f"Unknown {kind} '{name}'.{hint} Available: {', '.join(known)}.")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question for the end of a message if one of `names` is similar, else an empty string."""
    nearest = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" Did you mean '{nearest[0]}'?" if nearest else ""


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


def import_optional(module: str, message: str) -> Any:
    """Imports a package that not every installation has; without it, an `InputError` with this message."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(message) from error


class Registry:
    """Maps names to objects that are imported on first use.

    A name of the form `module:Name` stands for an object outside the registry.

    Example:

    >>> numbers = Registry("parser", "athe_tf.utils", {"number": "number_format:parse_number"})
    >>> numbers.get("number")("8/255")
    0.03137254901960784
    >>> numbers.get("math:sqrt")(9.0)
    3.0

    Args:
        kind: What the names stand for, in the words of an error message: "framework", "attack".
        package: The package whose modules hold the objects.
        entries: From a name to `"module:object"`, the module relative to `package`.
        extensible: Whether `module:Name` is accepted. Defaults to `True`.
    """

    def __init__(self, kind: str, package: str, entries: Mapping[str, str], extensible: bool = True):
        self.kind = kind
        self.package = package
        self.entries = dict(entries)
        self.extensible = extensible

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, {sorted(self.entries)})"

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def check(self, name: str) -> None:
        """Raises `InputError`, with a similar name, unless `name` is registered or `module:Name`."""
        if name not in self.entries and not (self.extensible and is_import_path(name)):
            raise unknown_name(self.kind, name, self.entries)

    def get(self, name: str) -> Any:
        """The object that `name` stands for."""
        self.check(name)
        if name not in self.entries:
            return import_object(name, self.kind)
        module, _, attribute = self.entries[name].partition(":")
        return getattr(importlib.import_module(f"{self.package}.{module}"), attribute)


def split_names(text: str) -> list[str]:
    """The names in a list; commas inside parentheses do not separate names.

    Example:

    >>> split_names("pgd-20, mine:MyAttack(tries=9, step_size=2/255)")
    ['pgd-20', 'mine:MyAttack(tries=9, step_size=2/255)']
    """
    parts = re.findall(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\)|[()])+", text)
    return [part.strip() for part in parts if part.strip()]


_CALL = re.compile(r"(?P<name>[^()]+)\((?P<arguments>.*)\)", re.DOTALL)


def split_call(text: str, kind: str, example: str) -> tuple[str, dict[str, Any]]:
    """Splits a name that carries options as a call into both, without evaluating code.

    Example:

    >>> split_call("pgd-20(step_size=2/255, restarts=2)", "attack", "pgd-20(restarts=2)")
    ('pgd-20', {'step_size': 0.00784313725490196, 'restarts': 2})

    Args:
        text: The name, alone or with options.
        kind: What the name stands for, in the words of an error message: "attack".
        example: A call that an error message shows.
    """
    match = _CALL.fullmatch(text.strip())
    if match is None:
        return text, {}
    try:
        call = ast.parse(f"f({match['arguments']})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("every argument needs a name")
        return match["name"], {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        reason = "it is not a call" if isinstance(error, SyntaxError) else error
        raise InputError(
            f"The options of the {kind} '{text}' cannot be read: {reason}. Expected names and values, such "
            f"as {example}."
        ) from None


def _literal(node: ast.expr) -> Any:
    """The value of a literal, where fractions such as 8/255 are numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _literal(node.left) / _literal(node.right)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"`{ast.unparse(node)}` is not a number, a text, a list or a dictionary") from None


def attach_stub(
    package: str, file: str, elsewhere: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the imports of its stub.

    Args:
        package: Its `__name__`.
        file: Its `__file__`.
        elsewhere: Further names, and the modules outside of the package that have them. The stub lists them
            as assignments: `lazy_loader` reads only imports from inside the package.
    """
    own, _, names = lazy_loader.attach_stub(package, file)
    names = sorted([*names, *elsewhere])

    def get(name: str) -> Any:
        return getattr(importlib.import_module(elsewhere[name]), name) if name in elsewhere else own(name)

    return get, lambda: list(names), names
