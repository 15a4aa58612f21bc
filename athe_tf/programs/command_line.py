"""What the programs share: flags from a dataclass, a manual for `--helpshort`, errors without a traceback."""

import contextlib
import dataclasses
import os
import sys
import textwrap
from typing import Any

from absl import flags

from athe_tf.programs.config import exact_number, field_type, item_type
from athe_tf.utils.errors import InputError
from athe_tf.utils.number_format import parse_number
from athe_tf.utils.registry import unknown_name


class _NumberParser(flags.ArgumentParser):
    """Reads `0.031` and `8/255`."""

    syntactic_help = "a number such as 0.031 or 8/255"

    def parse(self, argument):
        return parse_number(argument)

    def flag_type(self):
        return "number"


class _IntegerParser(flags.ArgumentParser):
    """Reads `3`."""

    syntactic_help = "a whole number"

    def parse(self, argument):
        try:
            return int(argument)
        except ValueError:
            raise InputError("Expected a whole number such as 3.") from None

    def flag_type(self):
        return "int"


class _NumberSerializer(flags.ArgumentSerializer):
    def serialize(self, value):
        return exact_number(value)


class _ListParser(flags.ArgumentParser):
    """Reads values separated by commas."""

    def __init__(self, item):
        self.item = item
        self.syntactic_help = "values separated by commas"

    def parse(self, argument):
        if isinstance(argument, (list, tuple)):
            return tuple(argument)
        items = [text.strip() for text in str(argument).split(",") if text.strip()]
        return tuple(parse_number(text) if self.item is float else text for text in items)

    def flag_type(self):
        return "list"


class _ListSerializer(flags.ArgumentSerializer):
    def serialize(self, value):
        return ",".join(exact_number(v) if isinstance(v, float) else str(v) for v in value)


def define_flags(config_class, values: flags.FlagValues) -> None:
    """One flag for each field of a config class."""
    for field in _flag_fields(config_class):
        default: Any = field.default
        kind, text = field_type(config_class, field.name), field.metadata["help"]
        if kind is bool:
            flags.DEFINE_boolean(field.name, default, text, flag_values=values)
        elif kind is int:
            flags.DEFINE(_IntegerParser(), field.name, default, text, values, flags.ArgumentSerializer())
        elif kind is float:
            flags.DEFINE(_NumberParser(), field.name, default, text, values, _NumberSerializer())
        elif kind is tuple:
            parser = _ListParser(item_type(config_class, field.name))
            flags.DEFINE(parser, field.name, default, text, values, _ListSerializer())
        else:
            flags.DEFINE_string(field.name, default, text, flag_values=values)


def _flag_fields(config_class) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(config_class) if not field.metadata.get("positional")]


def _positional_field(config_class) -> dataclasses.Field | None:
    """The field that takes what stands on the command line without dashes."""
    return next((f for f in dataclasses.fields(config_class) if f.metadata.get("positional")), None)


def manual(name: str, summary: str, examples: str, config_class, extra=()) -> str:
    """The text of `--helpshort`."""
    lines = [
        f"{name}: {summary}",
        "",
        "Examples:",
        *(f"  {line}" for line in examples.strip().splitlines()),
        "",
    ]
    positional = _positional_field(config_class)
    if positional is not None:
        lines += [f"{positional.name.upper()}: {positional.metadata['help']}", ""]
    lines.append("Flags (they may stand in a file given with --flagfile=FILE; later ones win):")
    rows = [(f.name, f.metadata["help"], f.default) for f in _flag_fields(config_class)]
    for flag, text, default in [*rows, *extra]:
        if default not in (None, False, "", ()):
            text = f"{text} [{_default_text(default)}]"
        lines.append(f"  --{flag}")
        lines.extend(f"      {line}" for line in textwrap.wrap(text, 72))
    return "\n".join(lines) + "\n"


def _default_text(value) -> str:
    if isinstance(value, tuple):
        return ",".join(_default_text(v) for v in value)
    return exact_number(value) if isinstance(value, float) else str(value)


def run(name: str, summary: str, examples: str, config_class, action, extra=()) -> None:
    """Parses the command line, makes the config, calls `action(config, flag values)` and exits.

    Args:
        name: The program, as `bin/train`.
        summary: One sentence.
        examples: Command lines, one a line.
        config_class: Its fields are the flags; one marked `positional` takes the words without dashes.
        action: What to do. Raises `InputError` for input that cannot work.
        extra: Boolean flags beside the config: `(name, help, default)`.
    """
    values = flags.FlagValues()
    define_flags(config_class, values)
    for flag, text, default in extra:
        flags.DEFINE_boolean(flag, default, text, flag_values=values)
    help_flags = ("help", "helpshort", "h")
    for flag in help_flags:
        flags.DEFINE_boolean(flag, False, "show this text", flag_values=values)
    try:
        config = _parse(values, config_class)
        if any(values[flag].value for flag in help_flags):
            print(manual(name, summary, examples, config_class, extra), end="")
            sys.exit(0)
        status = action(config(), values)
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)
    sys.exit(status or 0)


def say(*parts, flush: bool = True) -> bool:
    """Prints for the user; whether that worked.

    A log on a full disk or a reader that went away must not end a run. Once printing has failed, further
    output goes nowhere.
    """
    try:
        print(*parts, flush=flush)
    except OSError as error:
        with contextlib.suppress(OSError):
            print(f"Standard output cannot be written any longer: {error.strerror}.", file=sys.stderr)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return False
    return True


def _parse(values: flags.FlagValues, config_class):
    try:
        rest = values(sys.argv)
    except flags.UnrecognizedFlagError as error:
        negated = [f"no{flag}" for flag in values if values[flag].boolean]
        raise unknown_name("flag", error.flagname, [str(flag) for flag in values], also=negated) from error
    except flags.CantOpenFlagFileError as error:
        reason = str(error).rpartition("] ")[2]
        raise InputError(f"The file of --flagfile cannot be opened: {reason}. configs/ has many.") from error
    except (flags.Error, OSError) as error:
        raise InputError(str(error)) from error
    positional = _positional_field(config_class)
    if len(rest) > 1 and positional is None:
        raise InputError(f"Unexpected argument '{rest[1]}'. Flags start with two dashes, as --epochs=3.")
    given = {positional.name: tuple(rest[1:])} if positional else {}
    names = [field.name for field in _flag_fields(config_class)]
    return lambda: config_class(**{name: values[name].value for name in names}, **given)
