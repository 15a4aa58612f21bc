"""Options: how classes are composed of tables, and what is derived from a declaration."""

import dataclasses
from collections.abc import Sequence
from typing import Optional

from athe_tf.utils.options import (
    field_type,
    is_optional,
    item_type,
    json_schema,
    listed,
    option,
    values_of,
    with_help,
)


@dataclasses.dataclass(frozen=True)
class First:
    one: int = option(1, "One.", gt=0)
    two: str | float = option("model", "Two.")


@dataclasses.dataclass(frozen=True)
class Second:
    three: Sequence[float] = option((), "Three.", after="one")
    four: Optional[int] = option(None, "Four.")  # noqa: UP045 - as a framework from outside may write it


@listed
@dataclasses.dataclass(frozen=True)
class Config(Second, First):
    one: int = with_help(First, "one", "Another one.")
    five: tuple[str, ...] = option((), "Five.", after="two")
    six: bool = option(False, "Six.")


def test_options_are_listed_where_they_belong():
    assert [field.name for field in dataclasses.fields(Config)] == [
        "one",
        "three",
        "two",
        "five",
        "four",
        "six",
    ]
    assert dataclasses.replace(Config(one=3), six=True) == Config(one=3, six=True)
    # The tables themselves stay as they were.
    assert list(values_of(Second, Config())) == ["three", "four"]


def test_another_help_text_changes_nothing_else():
    ours, theirs = Config.__dataclass_fields__["one"], First.__dataclass_fields__["one"]
    assert ours.default == theirs.default == 1
    assert dict(ours.metadata) == {**theirs.metadata, "help": "Another one."}


def test_the_type_of_an_option_is_that_of_its_flag_and_of_its_schema():
    found = {
        field.name: (field_type(Config, field.name), is_optional(Config, field.name))
        for field in dataclasses.fields(Config)
    }
    assert found == {
        "one": (int, False),
        "three": (tuple, False),
        "two": (str, False),
        "five": (tuple, False),
        "four": (int, True),
        "six": (bool, False),
    }
    assert item_type(Config, "three") is float and item_type(Config, "five") is str
    assert json_schema(Config, "two") == {"type": ["number", "string"], "description": "a number or a text"}
    numbers = {"type": "array", "items": {"type": "number"}, "description": "a list of numbers"}
    assert json_schema(Config, "three") == numbers
    assert json_schema(Config, "four")["description"] == "a whole number or null"
