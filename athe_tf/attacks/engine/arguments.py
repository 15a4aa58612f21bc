"""The arguments that an object was made with, so that it can describe itself."""

import inspect

import numpy as np

from athe_tf.utils.digests import array_digest
from athe_tf.utils.errors import check


def check_at_least(least: int, **arguments) -> None:
    """Raises `InputError` unless every argument is at least `least`; `None` passes."""
    for name, value in arguments.items():
        valid = value is None or value >= least
        check(valid, f"`{name}` must be at least {least}. Received: {name}={value}.")


def check_positive(**arguments) -> None:
    """Raises `InputError` unless every argument is larger than 0."""
    for name, value in arguments.items():
        check(value > 0, f"`{name}` must be positive. Received: {name}={value}.")


def constructor_arguments(cls: type) -> dict[str, inspect.Parameter]:
    """The arguments of a class by name, those that `**kwargs` passes on to its base classes included.

    Example:

    >>> list(constructor_arguments(athe_tf.attacks.MIM))[:3]
    ['epsilon', 'norm', 'decay']
    """
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        kinds = {parameter.kind for parameter in parameters}
        for parameter in parameters:
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                found.setdefault(parameter.name, parameter)
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
    return found


class ReprFromArguments:
    """A named object whose `repr` is the call that makes it and whose `settings` are its arguments.

    A subclass keeps every argument in an attribute of the same name. If the attribute is missing, the given
    argument or its default is used.
    """

    name: str
    _given: dict

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self._given = dict(zip(constructor_arguments(cls), args, strict=False)) | kwargs
        return self

    def __repr__(self) -> str:
        given = [
            f"{name}={_as_code(self._given[name])}"
            for name, parameter in constructor_arguments(type(self)).items()
            if name in self._given and _as_code(self._given[name]) != _as_code(parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def settings(self) -> dict:
        """Every argument of the constructor with the value in use, as JSON can hold it.

        Example:

        >>> athe_tf.attacks.FGSM(epsilon=0.1).settings()["step_size"]
        0.1
        """
        return {
            name: _as_json(getattr(self, name, self._given.get(name, parameter.default)))
            for name, parameter in constructor_arguments(type(self)).items()
        }


def _as_code(value) -> str:
    """How a value is written in a call; arrays by their shape."""
    if isinstance(value, np.generic):
        return repr(value.item())
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_as_code(item) for item in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{comma})"
    return f"<array {value.shape}>" if hasattr(value, "shape") and value.shape else repr(value)


def _as_json(value):
    """A value as JSON can hold it; functions by their names, arrays by a digest."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, ReprFromArguments) for item in value):
            return {item.name: item.settings() for item in value}
        return [_as_json(item) for item in value]
    if isinstance(value, (str, int, float, dict)) or value is None:
        return value
    if hasattr(value, "shape") and len(value.shape):
        return array_digest(np.asarray(value))
    return getattr(value, "__name__", None) or str(value)
