"""Settings to and from text: `config.json`, flags, and the differences of two runs."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from athe_tf.jobs import journal
from athe_tf.training.options import options_of
from athe_tf.utils.errors import InputError
from athe_tf.utils.number_format import format_number, parse_number
from athe_tf.utils.options import TYPES, field_type, is_optional, item_type
from athe_tf.utils.registry import is_import_path, unknown_name

#: The version of `config.json`. Version 1 had no number.
FORMAT = 2
#: What `config.json` records beside the settings, if it is known.
RECORDS = ("data_fingerprint", "images", "notes", "computed_on")


def to_json(config, **records) -> str:
    """A config as JSON, for `config.json`, with all options of its framework, and some of `RECORDS`."""
    settings = {"format": FORMAT, **dataclasses.asdict(config)}
    if "options" in settings:
        settings["options"] = dataclasses.asdict(config.framework_options)
    settings |= {name: value for name, value in records.items() if value}
    return json.dumps(settings, indent=2) + "\n"


def read_settings(text: str) -> dict[str, Any]:
    """The settings in the text of a `config.json` of this version."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise InputError("it is nested too deeply.") from None
    if not isinstance(values, dict):
        raise InputError("it is not a JSON object.")
    version = values.pop("format", 1)
    if version != FORMAT:
        raise InputError(
            f"it has format {version}, and this version of athe_tf writes format {FORMAT}. Resume the run "
            "with the version that started it, or start a new one in another folder."
        )
    for name in RECORDS:
        values.pop(name, None)
    if isinstance(values.get("options"), dict):
        values["options"] = with_tuples(values["options"])
    return with_tuples(values)


def with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Values from JSON, which has no tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def from_json(config_class, text: str, framework: str | None = None):
    """The config in the text of a `config.json`; unknown settings are an error.

    No `module:Name` is imported but the framework that the user named.
    """
    values = read_settings(text)
    stored = str(values.get("framework"))
    if is_import_path(stored) and stored != framework:
        raise InputError(f"its framework is '{stored}', which is imported only if --framework names it.")
    check_types(config_class, values)
    if values.get("options"):
        check_types(options_of(stored), values["options"])
    return config_class(**values)


def check_types(config_class, values: dict[str, Any]) -> None:
    """Raises `InputError` unless all values, which were read from a file, are settings and of their types."""
    known = {field.name for field in dataclasses.fields(config_class)}
    for name, value in values.items():
        if name not in known:
            raise unknown_name("setting", name, known)
        kind, item = field_type(config_class, name), item_type(config_class, name)
        items = value if kind is tuple and isinstance(value, tuple) else ()
        fits = _is_a(value, kind) and all(_is_a(one, item) for one in items)
        if fits or (value is None and is_optional(config_class, name)):
            continue
        of = f" of {TYPES[item][1].removeprefix('a ')}s" if kind is tuple else ""
        raise InputError(
            f"Invalid setting '{name}'. Expected {TYPES[kind][1]}{of}. Received: {str(value)[:100]}."
        )


def _is_a(value, kind) -> bool:
    """Whether a value from JSON has a type; integers are numbers, and booleans are not."""
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def given_settings(config) -> dict[str, Any]:
    """The settings of a config as flags: those that are not `None`, with the options of the framework."""
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if settings.pop("options", None) is not None:
        settings |= dataclasses.asdict(config.framework_options)
    return {name: value for name, value in settings.items() if value is not None}


def deciding_settings(config) -> dict[str, Any]:
    """The settings of `given_settings` that affect the result."""
    runtime = {field.name for field in dataclasses.fields(config) if field.metadata.get("runtime")}
    return {name: value for name, value in given_settings(config).items() if name not in runtime}


def flag_text(value) -> str:
    """A value as text for the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(flag_text(v) for v in value)
    if not isinstance(value, float):
        return str(value)
    # The shortest text of a number that is read as exactly the same number.
    text = format_number(value)
    return text if parse_number(text) == value else repr(value)


def as_flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as arguments of a command line."""
    return [f"--{name}={flag_text(value)}" for name, value in settings.items()]


def differences(one, other) -> list[str]:
    """The settings that affect the result and differ, as text; empty for two configs of the same run."""
    there, here = map(deciding_settings, (one, other))
    return journal.differences(here, there, "--{name}={ours} (there: {stored})", flag_text)
