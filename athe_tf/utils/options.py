"""Options: dataclass fields that carry their help text, choices and bounds.

An option is described once, without TensorFlow. Flags and config files are derived from the description, and
whoever takes the value in Python checks it with the same rule and the same words.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

from athe_tf.utils.errors import InputError, check
from athe_tf.utils.printable import is_control
from athe_tf.utils.registry import unknown_name


def option(
    default,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    **metadata,
) -> Any:
    """A dataclass field with its help text and what its value must be.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     beta: float = option(6.0, "Weight of the divergence.", least=0)
    >>> check_options(Options(beta=6.0))

    Args:
        default: The default; `None` if somebody else decides.
        help: One sentence for `--help`.
        choices: The values that a text can have.
        least: The smallest number.
        above: Numbers must be larger than this.
        below: Numbers must be smaller than this.
        **metadata: `runtime=True` marks what does not change the result of a run; `positional=True` takes
            what stands on the command line without dashes.
    """
    rules = {"choices": choices, "least": least, "above": above, "below": below}
    return dataclasses.field(default=default, metadata={"help": help, **rules, **metadata})


def check_option(options_class, name: str, value, shown: str | None = None) -> None:
    """Raises `InputError` unless an option can have this value.

    Args:
        options_class: The dataclass that describes the option.
        name: Its field.
        value: The value; `None` is always accepted.
        shown: How the message calls the option. Defaults to `name`.
    """
    rules = options_class.__dataclass_fields__[name].metadata
    shown = shown or name
    if value is None:
        return
    if rules.get("choices") is not None and value not in rules["choices"]:
        raise unknown_name(shown, str(value), rules["choices"])
    for text in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
        check(
            not any(map(is_control, str(text))),
            f"{shown} must be a text without line breaks and other control characters. Received: {text!r}. "
            "Rename the file or folder.",
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        bounds = _bounds(rules)
        check(
            not bounds or (_is_finite(value) and _within(value, rules)),
            f"{shown} must {bounds}. Received: {shown}={_number(value)}.",
        )


def _bounds(rules) -> str:
    least, above, below = (rules.get(name) for name in ("least", "above", "below"))
    if below is not None:
        left, low = ("[", least) if above is None else ("(", above)
        return f"lie in {left}{_number(low)}, {_number(below)})"
    if above is not None:
        return f"be a finite number larger than {_number(above)}"
    if least is not None:
        return "be finite and not negative" if least == 0 else f"be at least {_number(least)}"
    return ""


def _number(value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_finite(value) -> bool:
    return isinstance(value, int) or math.isfinite(value)  # a large integer is no float


def _within(value, rules) -> bool:
    return (
        (rules.get("least") is None or value >= rules["least"])
        and (rules.get("above") is None or value > rules["above"])
        and (rules.get("below") is None or value < rules["below"])
    )


def check_options(options, shown: Callable[[str], str] = str) -> None:
    """Checks every field of a dataclass of options.

    Args:
        options: An instance.
        shown: From the name of a field to how messages call it.
    """
    for field in dataclasses.fields(options):
        check_option(type(options), field.name, getattr(options, field.name), shown(field.name))


def make_options(options_class, values: dict, owner: str):
    """An instance from keyword arguments; an argument that is not an option is an `InputError`."""
    known = [field.name for field in dataclasses.fields(options_class)]
    for name in values:
        if name not in known:
            raise InputError(
                f"Unknown argument '{name}' of {owner}. Options of {owner}: {', '.join(known) or 'none'}."
            )
    return options_class(**values)


class DerivedSignature:
    """The `__signature__` of classes whose constructors take options as keyword arguments.

    `inspect.signature`, and what shows signatures, then see the arguments that `__init__` names, the options
    with their types and defaults, and what `**kwargs` pass on to the class that has this attribute.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     beta: float = option(6.0, "Weight of the divergence.", least=0)
    >>> class Model:
    ...     options_class = Options
    ...     __signature__ = DerivedSignature("options_class")
    ...
    ...     def __init__(self, net, *, seed: int = 0, **options):
    ...         self.options = make_options(self.options_class, options, "Model")
    >>> inspect.signature(Model)
    <Signature (net, *, beta: float = 6.0, seed: int = 0)>

    Args:
        options_class: The attribute of the class that is the dataclass of its options.
    """

    def __init__(self, options_class: str):
        self.options_class = options_class

    def __set_name__(self, owner, name):
        self.root = owner

    def __get__(self, instance, owner) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # an instance is called with other arguments
        found: list[inspect.Parameter] = []
        for base in (base for base in owner.__mro__ if "__init__" in vars(base)):
            if base is self.root:
                found += map(_as_parameter, dataclasses.fields(getattr(owner, self.options_class)))
            found += list(inspect.signature(base.__init__).parameters.values())[1:]
            if base is self.root or found[-1].kind is not inspect.Parameter.VAR_KEYWORD:
                break
        named: dict[str, inspect.Parameter] = {}
        for each in found:
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                named.setdefault(each.name, each)
        return inspect.Signature(sorted(named.values(), key=lambda each: each.kind))


def _as_parameter(field: dataclasses.Field) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
    )
