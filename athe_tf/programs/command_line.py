"""Shared parts of the programs: flags from a dataclass, the text of `--help`, errors without a traceback."""

import contextlib
import dataclasses
import errno
import itertools
import os
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags

from athe_tf.programs.config.serialization import flag_text
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.recipes import with_recipes
from athe_tf.utils.errors import InputError, described, first_line
from athe_tf.utils.files import FULL
from athe_tf.utils.number_format import parse_number
from athe_tf.utils.options import field_type, item_type
from athe_tf.utils.registry import split_names, unknown_name
from athe_tf.utils.streams import open_standard_streams, print_line, warn
from athe_tf.version import __version__

#: Errors of the operating system that another path or other permissions fix.
USER_FIXABLE = {errno.EACCES, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
USER_FIXABLE |= {errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.EPERM, errno.EROFS}
#: The exit code if a requirement is not met.
NOT_MET = 3
FULL_REMEDY = "Free some space, and give the same command again."
MEMORY_REMEDY = "Use a smaller --batch_size, or a machine with more memory."
_INSTALLED = "athe-tf-"
# A name of a program, and not a part of a path.
_NAME = re.compile(
    r"(?<![\w./'\"=-])bin/(analyze|evaluate|export|import_torch|import|report|reproduce|selftest|train)\b"
)


def with_program_names(text: str) -> str:
    """A text that names programs as `bin/NAME`, with the names that the user knows them by.

    Where they are installed, `bin/train` is `athe-tf-train`.

    Example:

    >>> with_program_names("bin/train: interrupted.")
    'bin/train: interrupted.'
    """
    return _NAME.sub(rf"{_INSTALLED}\1", text) if _is_installed() else text


def _is_installed() -> bool:
    return os.path.basename(sys.argv[0]).startswith(_INSTALLED)


class _Parser(flags.ArgumentParser):
    """Reads a value by a function; `kind` is what absl calls the type."""

    def __init__(self, read: Callable, kind: str, syntactic_help: str):
        self._read, self._kind, self.syntactic_help = read, kind, syntactic_help

    def parse(self, argument):
        return self._read(argument)

    def flag_type(self):
        return self._kind


def _integer(text) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InputError("Expected a whole number such as 3.") from None
    if abs(value) >= 2**63:
        raise InputError("Expected a whole number of at most 64 bits.")
    return value


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag, derived from a field of a dataclass of options.

    Attributes:
        name: Without dashes.
        help: One sentence.
        kind: `int`, `float`, `str`, `bool` or `tuple`.
        item: The type of the items of a tuple.
        default: The default, for the manual.
        choices: The values that a text can have.
        repeated: Whether a flag that is given several times has all of its values; else the last one counts.
    """

    name: str
    help: str
    kind: type = bool
    item: type = str
    default: Any = None
    choices: tuple[str, ...] | None = None
    repeated: bool = False

    def define(self, values: flags.FlagValues) -> None:
        """Defines the flag in absl, with the default `None`: the dataclass has the defaults."""
        if self.kind is bool:
            flags.DEFINE_boolean(self.name, None, self.help, flag_values=values)
            return
        readers: dict[type, Callable] = {float: parse_number, int: _integer}
        read = readers.get(self.item, str)
        parsers: dict[type, flags.ArgumentParser] = {
            int: _Parser(_integer, "int", "a whole number"),
            float: _Parser(parse_number, "number", "a number such as 0.031 or 8/255"),
            tuple: _Parser(
                lambda text: tuple(map(read, split_names(str(text)))), "list", "values separated by commas"
            ),
        }
        parser = parsers.get(self.kind, flags.ArgumentParser())
        if self.repeated:
            flags.DEFINE_multi(parser, flags.ArgumentSerializer(), self.name, None, self.help, values)
            return
        flags.DEFINE(parser, self.name, None, self.help, values, flags.ArgumentSerializer())

    def manual(self) -> list[str]:
        """Its lines in the manual."""
        text = self.help + (f" One of {', '.join(self.choices)}." if self.choices else "")
        if self.default not in (None, False, "", ()):
            text = f"{text} [{self.default if self.default is True else flag_text(self.default)}]"
        return [f"  --{self.name}", *(f"      {line}" for line in textwrap.wrap(text, 72))]


def flags_of(options_class) -> list[Flag]:
    """The flags that a dataclass of options describes."""
    return [
        Flag(
            field.name,
            field.metadata["help"],
            field_type(options_class, field.name),
            item_type(options_class, field.name),
            None if field.default is dataclasses.MISSING else field.default,
            field.metadata.get("choices"),
            field.metadata.get("repeated", False),
        )
        for field in dataclasses.fields(options_class)
        if not field.metadata.get("positional") and field.metadata.get("flag", True)
    ]


DEBUG = Flag("debug", "Show the traceback of an error.")
VERSION = Flag("version", "Show the version.")


@dataclasses.dataclass
class Program:
    """A command-line program: its name, its flags and what it does.

    Args:
        name: Such as `bin/train`; an installed program calls itself `athe-tf-train`.
        summary: One sentence.
        examples: Command lines, one per line.
        config_class: Its fields are the flags; one marked `positional` gets the arguments without dashes.
        action: Called with `(config, values of the extra flags)`; returns the exit code or `None`. Raises
            `InputError` for input that cannot work.
        extra: Flags that are not part of the config.
    """

    name: str
    summary: str
    examples: str
    config_class: Any
    action: Callable
    extra: Sequence[Flag] = ()

    def __post_init__(self):
        self.name, self.extra, self.debug = with_program_names(self.name), [*self.extra, DEBUG], False
        fields = dataclasses.fields(self.config_class)
        self._positional = next((field for field in fields if field.metadata.get("positional")), None)

    def flags(self, arguments: list[str]) -> list[Flag]:
        """The flags of the config; `bin/train`'s depend on the framework."""
        return flags_of(self.config_class)

    def manual(self, arguments: list[str]) -> str:
        """The text of `--help`."""
        lines = [f"{self.name}: {self.summary}", "", "Examples:"]
        lines += [*(f"  {line}" for line in self.examples.strip().splitlines()), ""]
        if self._positional is not None:
            lines += [f"{self._positional.name.upper()}: {self._positional.metadata['help']}", ""]
        lines.append("Flags (also from a file, with --flagfile=FILE; later ones override earlier ones):")
        for flag in [*self.flags(arguments), *self.extra, VERSION]:
            lines += flag.manual()
        text = "\n".join([*lines, ""])
        # An installed program has its recipes by name only.
        return with_program_names(re.sub(r"configs/(\w+)\.flags", r"\1", text) if _is_installed() else text)

    def run(self) -> None:
        """Parses the command line, makes the config, calls the action and exits."""
        if any(option.startswith("error") for option in sys.warnoptions):
            # `python -W error` is about the user's own code: what TensorFlow warns of does not end a program.
            warnings.simplefilter("default")
            for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)
        sys.exit(self.exit_code())

    def exit_code(self) -> int:
        """Runs the program; the only place where exceptions become messages and exit codes."""
        open_standard_streams()
        with INTERRUPTION.handled(self.name):
            try:
                return self._run(sys.argv) or 0
            except (KeyboardInterrupt, Exception) as error:
                if self.debug or f"--{DEBUG.name}" in sys.argv:  # also if flags cannot be read
                    warn(traceback.format_exc().rstrip("\n"))
                if isinstance(error, KeyboardInterrupt):
                    return INTERRUPTION.end(error)
                code, message = explain(error)
                warn_user(self.name, message)
                return code

    def _run(self, arguments: list[str]) -> int | None:
        config, extra = self.read(arguments)
        if extra.get(VERSION.name):
            print_line(f"{self.name}: athe_tf {__version__}")
            return 0
        if config is None:
            print_line(self.manual(with_recipes(arguments)).rstrip("\n"))
            return 0
        self.debug = extra[DEBUG.name]
        return self.action(config, extra)

    def read(self, arguments: list[str]) -> tuple[Any, dict]:
        """The config, or `None` if help or the version is asked for, and the values of the extra flags."""
        values, arguments = flags.FlagValues(), with_recipes(arguments)
        own = self.flags(arguments)
        help_flags = [Flag(name, "Show this text.") for name in ("help", "helpshort", "h")]
        for flag in [*own, *self.extra, *help_flags, VERSION]:
            flag.define(values)
        rest = parse(values, arguments)
        if values[VERSION.name].value:
            return None, {VERSION.name: True}
        if any(values[flag.name].value for flag in help_flags):
            return None, {}
        given = {flag.name: values[flag.name].value for flag in own}
        given = {name: value for name, value in given.items() if value is not None}
        given |= {
            flag.name: tuple(itertools.chain.from_iterable(given[flag.name] or ()))
            for flag in own
            if flag.repeated and flag.name in given
        }
        if self._positional is not None:
            given[self._positional.name] = tuple(rest)
        elif rest:
            raise InputError(f"Unexpected argument '{rest[0]}'. Flags start with two dashes, as --epochs=3.")
        extra = {flag.name: values[flag.name].value for flag in self.extra}
        extra |= {flag.name: bool(extra[flag.name]) for flag in self.extra if flag.kind is bool}
        return getattr(self.config_class, "from_flags", self.config_class)(**given), extra


def summaries(title: str, entries) -> str:
    """A list for the manual, below the examples, of what has a name and a summary."""
    width = max(map(len, entries))
    return "\n".join([f"\n{title}:", *(f"  {name:<{width}}  {one.summary}" for name, one in entries.items())])


def warn_user(program: str, text) -> None:
    """Prints a warning of a program, which names programs as the user knows them."""
    warn(with_program_names(f"{program}: {text}"))


@contextlib.contextmanager
def warnings_as_lines(program: str) -> Iterator[None]:
    """Shows the warnings of the library as lines for the user, without the places in its code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn_user(program, message)
        yield


def parse(values: flags.FlagValues, arguments: list[str]) -> list[str]:
    """Reads flags; returns the arguments without dashes."""
    try:
        return values(arguments)[1:]
    except flags.UnrecognizedFlagError as error:
        negated = [f"no{flag}" for flag in values if values[flag].boolean]
        raise unknown_name("flag", error.flagname, [str(flag) for flag in values], also=negated) from error
    except flags.Error as error:
        raise InputError(str(error)) from error


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and the message of an exception, in one line unless an `InputError` has several.

    2 is for errors that the user can fix, 1 for a failure of the system or of athe_tf.
    """
    if isinstance(error, InputError):
        return 2, str(error)
    if isinstance(error, MemoryError):
        return 1, f"Out of memory{described(error).removeprefix(type(error).__name__)}. {MEMORY_REMEDY}"
    if isinstance(error, OSError) and error.errno is not None:
        return _of_the_system(error)
    tensorflow = sys.modules.get("tensorflow")  # which is not imported for this
    if tensorflow is not None and isinstance(error, tensorflow.errors.OpError):
        return _of_tensorflow(error, tensorflow.errors)
    return 1, f"Failed with {described(error)}. --debug shows where."


def _of_the_system(error: OSError) -> tuple[int, str]:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = f": '{names[0]}'" if names else ""
    reason = first_line(error)
    if error.errno in FULL:
        return 1, f"{reason}{place}. {FULL_REMEDY}"
    if error.errno == errno.ENOMEM:
        return 1, f"{reason}{place}. {MEMORY_REMEDY}"
    if error.errno in USER_FIXABLE and names:
        return 2, f"{reason}{place}. Check the path and its permissions."
    return 1, f"Failed with an error of the operating system: {reason}{place}. --debug shows where."


def _of_tensorflow(error: Any, errors: Any) -> tuple[int, str]:
    text = first_line(error)
    if "No space left" in str(error.message):
        return 1, f"No space left on device: {text}. {FULL_REMEDY}"
    if isinstance(error, errors.ResourceExhaustedError):
        return 1, f"Out of memory: {text}. {MEMORY_REMEDY}"
    if isinstance(error, (errors.NotFoundError, errors.PermissionDeniedError)) and error.op is None:
        return 2, f"{text}. Check the path and its permissions."
    return 1, f"TensorFlow failed with {described(error)}. --debug shows where."
