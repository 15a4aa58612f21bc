"""What other libraries' errors say becomes a part of our messages."""

import errno
import os

import pytest
import tensorflow as tf

from athe_tf.utils.errors import described, first_line


@pytest.mark.parametrize(
    "error, line, description",
    [
        (ValueError("One.\nTwo."), "One", "ValueError: One"),
        (ValueError("\n\n  One.  \n"), "One", "ValueError: One"),
        (ValueError(" \n"), "ValueError", "ValueError"),
        (EOFError(), "EOFError", "EOFError"),
        (
            OSError(errno.EACCES, os.strerror(errno.EACCES), "a"),
            "Permission denied",
            "PermissionError: Permission",
        ),
        (OSError("no number"), "no number", "OSError: no number"),
        (
            tf.errors.DataLossError(None, None, "{{node a}} cut short [Op:Read]\nmore"),
            "cut short",
            "DataLoss",
        ),
    ],
)
def test_an_error_is_one_line_without_a_period(error, line, description):
    assert first_line(error) == line and described(error).startswith(description)


def test_a_long_message_is_cut():
    assert len(first_line(ValueError("x" * 1000))) == 500
