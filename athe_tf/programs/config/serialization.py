"""Settings to and from text: `config.json`, flags, and what tells two runs apart."""

import dataclasses
import json
from typing import Any, get_args, get_type_hints

from athe_tf.utils.number_format import format_number, parse_number
from athe_tf.utils.registry import unknown_name


def field_type(config_class, name: str):
    """The type of a field without `None`: `int`, `float`, `str`, `bool` or `tuple`."""
    hint = get_type_hints(config_class)[name]
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    return tuple if getattr(hint, "__origin__", None) is tuple else kinds[0]


def item_type(config_class, name: str):
    """The type of the items of a tuple field."""
    return get_args(get_type_hints(config_class)[name])[0]


def to_json(config) -> str:
    """A config as JSON, for `config.json`."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(config_class, text: str):
    """The config of a `config.json`; fields that it does not know are an error."""
    values: dict[str, Any] = json.loads(text)
    known = {field.name for field in dataclasses.fields(config_class)}
    for name in values:
        if name not in known:
            raise unknown_name("setting", name, known)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return config_class(**values)


def flag_text(config, name: str) -> str:
    """A field's value as one would write it on the command line."""
    value = getattr(config, name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(format_number(v) if isinstance(v, float) else str(v) for v in value)
    return exact_number(value) if isinstance(value, float) else str(value)


def exact_number(value: float) -> str:
    """A number's shortest text that reads back as the same number."""
    text = format_number(value)
    return text if parse_number(text) == value else repr(value)


def differences(one, other) -> list[str]:
    """The settings that matter and differ, as text; empty when two runs are the same run."""
    return [
        f"--{field.name}={flag_text(other, field.name)} (there: {flag_text(one, field.name)})"
        for field in dataclasses.fields(one)
        if not field.metadata.get("runtime") and getattr(one, field.name) != getattr(other, field.name)
    ]
