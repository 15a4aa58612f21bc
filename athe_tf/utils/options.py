"""Options: dataclass fields that carry their help text, choices and bounds.

An option is described once, without TensorFlow. Flags and config files are derived from the description, and
whoever takes the value in Python checks it with the same rule and the same words.
"""

import dataclasses
import inspect
import math
import numbers
import operator
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from athe_tf.utils.errors import InputError, check
from athe_tf.utils.registry import unknown_name
from athe_tf.utils.streams import has_controls

#: The types of options: their names in JSON Schema, and how messages call a value.
TYPES: dict[type, tuple[str, str]] = {
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    str: ("string", "a text"),
    bool: ("boolean", "true or false"),
    tuple: ("array", "a list"),
    dict: ("object", "an object"),
    types.NoneType: ("null", "null"),
}


#: Names of bounds in version 0.1, which still work.
FORMER_BOUNDS = {"least": "ge", "above": "gt", "below": "lt"}


def option(
    default,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    **metadata,
) -> Any:
    """A dataclass field with its help text and what its value must be.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     beta: float = option(6.0, "Weight of the divergence.", ge=0)
    >>> check_options(Options(beta=6.0))

    Args:
        default: The default; `None` if somebody else decides.
        help: One sentence for `--help`.
        choices: The values that a text can have.
        ge: The smallest number.
        gt: Numbers must be larger than this.
        le: The largest number.
        lt: Numbers must be smaller than this.
        **metadata: `runtime=True` marks what does not change the result of a run; `positional=True` takes
            what stands on the command line without dashes; `after="name"` lists it behind another option in
            classes decorated with `listed`; `repeated=True` lets a flag be given several times.
    """
    for former, name in FORMER_BOUNDS.items():
        if former in metadata:
            warnings.warn(
                f"`{former}` of an option is now called `{name}`.", DeprecationWarning, stacklevel=2
            )
            metadata[name] = metadata.pop(former)
    rules = {"choices": choices, "ge": ge, "gt": gt, "le": le, "lt": lt}
    return dataclasses.field(default=default, metadata={"help": help, **rules, **metadata})


def check_option(options_class, name: str, value, display_name: str | None = None) -> None:
    """Raises `InputError` unless an option of a dataclass can have this value; `None` is always accepted."""
    rules = options_class.__dataclass_fields__[name].metadata
    display_name = display_name or name
    if value is None:
        return
    if rules.get("choices") is not None and value not in rules["choices"]:
        raise unknown_name(display_name, str(value), rules["choices"])
    for text in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
        check(
            not has_controls(str(text)),
            f"{display_name} must be a text without line breaks and other control characters. Received: "
            f"{text!r}. Rename the file or folder.",
        )
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        bounds = _bounds(rules)
        check(
            not bounds or _within(value, rules),
            f"{display_name} must {bounds}. Received: {display_name}={_number(value)}.",
        )


def _bounds(rules) -> str:
    least, above, most, below = (rules.get(name) for name in ("ge", "gt", "le", "lt"))
    if most is not None or below is not None:
        left, low = ("[", least) if above is None else ("(", above)
        return (
            f"lie in {left}{_number(low)}, {_number(below)})"
            if most is None
            else (f"lie in {left}{_number(low)}, {_number(most)}]")
        )
    if above is not None:
        return f"be a finite number larger than {_number(above)}"
    if least is not None:
        return "be finite and not negative" if least == 0 else f"be at least {_number(least)}"
    return ""


def _number(value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _within(value, rules) -> bool:
    """Whether a number is finite and within all bounds that there are."""
    tests = (("ge", operator.ge), ("gt", operator.gt), ("le", operator.le), ("lt", operator.lt))
    finite = isinstance(value, numbers.Integral) or math.isfinite(value)  # a large integer is no float
    return finite and all(rules.get(name) is None or test(value, rules[name]) for name, test in tests)


def check_options(options, display_name: Callable[[str], str] = str, table=None) -> None:
    """Checks every field of an instance of options, or the fields of its base class `table` only.

    `display_name` tells from the name of a field how messages call it.
    """
    for field in dataclasses.fields(table or options):
        check_option(type(options), field.name, getattr(options, field.name), display_name(field.name))


def check_arguments(table, **values) -> None:
    """Checks the arguments of a function that are options of a table, whole numbers by their type too.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     batch_size: int = option(128, "Images that go through the model at once.", gt=0)
    >>> check_arguments(Options, batch_size=64)
    """
    for name, value in values.items():
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        check(
            whole or value is None or field_type(table, name) is not int,
            f"{name} must be a whole number. Received: {name}={value!r}.",
        )
        check_option(table, name, value)


def seed_option(help: str) -> Any:
    """An option for a seed: 31 bits, so that no two seeds mean the same."""
    return option(0, help, ge=0, lt=2**31)


def with_help(table, name: str, help: str | None = None) -> Any:
    """The option of another class, perhaps with a help text of its own."""
    field = table.__dataclass_fields__[name]
    changes = {} if help is None else {"help": help}
    return dataclasses.field(default=field.default, metadata={**field.metadata, **changes})


def listed(options_class):
    """Class decorator: lists the fields that have `after="name"` behind that field, in flags and files.

    Options that one base class declares can so stand among another's.
    """
    fields = options_class.__dataclass_fields__
    order = list(fields)
    for name, field in fields.items():
        if "after" in field.metadata:
            order.remove(name)
            order.insert(order.index(field.metadata["after"]) + 1, name)
    options_class.__dataclass_fields__ = {name: fields[name] for name in order}
    return options_class


def values_of(table, options) -> dict[str, Any]:
    """The values of the fields that a dataclass has of another one, such as a base class.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     beta: float = option(6.0, "Weight of the divergence.", ge=0)
    >>> @dataclasses.dataclass(frozen=True)
    ... class Config(Options):
    ...     seed: int = seed_option("Seed.")
    >>> values_of(Options, Config(beta=3.0, seed=1))
    {'beta': 3.0}
    """
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(table)}


def chosen_values(table, options) -> dict[str, Any]:
    """As `values_of`, ready for JSON, and only those that differ from the default."""
    values = {name: _plain(value) for name, value in values_of(table, options).items()}
    defaults = {field.name: _plain(field.default) for field in dataclasses.fields(table)}
    return {name: value for name, value in values.items() if value != defaults[name]}


def _plain(value):
    """A value as JSON has it: NumPy's scalars and arrays become numbers and lists, tuples become lists."""
    value = value.tolist() if hasattr(value, "tolist") else value
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return [_plain(each) for each in value] if is_list else value


def _kinds(options_class, name: str) -> list[type]:
    """The types that an option can have, in the order in which they are written."""
    hint = typing.get_type_hints(options_class)[name]
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    choices = typing.get_args(hint) if is_union else (hint,)
    origins = [typing.get_origin(kind) or kind for kind in choices]
    return [tuple if kind is Sequence else kind for kind in origins]


def field_type(options_class, name: str) -> type:
    """The type of a field without `None`, the first if there are several."""
    return next(kind for kind in _kinds(options_class, name) if kind is not types.NoneType)


def item_type(options_class, name: str) -> type:
    """The type of the items of a tuple field."""
    return next(iter(typing.get_args(typing.get_type_hints(options_class)[name])), str)


def is_optional(options_class, name: str) -> bool:
    """Whether a field can be `None`."""
    return types.NoneType in _kinds(options_class, name)


def json_schema(options_class, name: str) -> dict[str, Any]:
    """The JSON Schema of the values of an option, with a description for messages.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Options:
    ...     beta: float | None = option(None, "Weight of the divergence.", ge=0)
    >>> json_schema(Options, "beta")
    {'type': ['number', 'null'], 'description': 'a number or null'}
    """
    found = _kinds(options_class, name)
    names, words = zip(*(TYPES[kind] for kind in TYPES if kind in found), strict=True)
    if found != [tuple]:
        return {"type": names[0] if len(names) == 1 else list(names), "description": " or ".join(words)}
    item, word = TYPES[item_type(options_class, name)]
    return {"type": "array", "items": {"type": item}, "description": f"a list of {word.removeprefix('a ')}s"}


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
    ...     beta: float = option(6.0, "Weight of the divergence.", ge=0)
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
                found += map(as_parameter, dataclasses.fields(getattr(owner, self.options_class)))
            found += list(inspect.signature(base.__init__).parameters.values())[1:]
            if base is self.root or found[-1].kind is not inspect.Parameter.VAR_KEYWORD:
                break
        named: dict[str, inspect.Parameter] = {}
        for each in found:
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                named.setdefault(each.name, each)
        return inspect.Signature(sorted(named.values(), key=lambda each: each.kind))


def as_parameter(field: dataclasses.Field) -> inspect.Parameter:
    """The keyword-only argument of a function or constructor that takes an option."""
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
    )
