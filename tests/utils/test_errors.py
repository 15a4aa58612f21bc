"""What other libraries' errors say becomes a part of our messages."""

import errno
import os

import pytest
import tensorflow as tf

from athe_tf.utils.errors import cause, described, first_line


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
    assert len(cause(ValueError("Exception encountered: " + "x" * 1000))) == 500


# As Keras 3.15, TensorFlow 2.21 and onnxruntime write them.
LOCATE = "Could not locate class 'Foo'. Make sure custom classes are decorated"
DESERIALIZE = (
    "<class 'Functional'> could not be deserialized properly. Please ensure that components are.\n\n"
    "config={'module': 'keras', 'config': {'name': 'a'}}.\n\nException encountered: "
)
ONNX = (
    "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x\n"
    " index: 0 Got: 16 Expected: 1\n Please fix either the inputs/outputs or the model."
)
IN_GRAPH = "Graph execution error:\n\nDetected at node PyFunc defined at (most recent call last):\n"


@pytest.mark.parametrize(
    "error, expected",
    [
        (TypeError(f"{DESERIALIZE}{LOCATE}. Full object config: {{'module': None}}"), LOCATE),
        (TypeError(DESERIALIZE + DESERIALIZE + LOCATE), LOCATE),
        (
            ValueError("Exception encountered when calling Foo.call().\n\n\x1b[1mNo.\x1b[0m\n\nArguments: x"),
            "No",
        ),
        (
            tf.errors.UnknownError(
                None, None, f'{IN_GRAPH}  File "a", line 1\n\nRuntimeError: {ONNX}\n\n\t [[{{{{node a}}}}]]'
            ),
            " ".join(ONNX.split()).rstrip("."),
        ),
        (
            tf.errors.InvalidArgumentError(
                None,
                None,
                f'{IN_GRAPH}  File "a", line 1\n\nIncompatible shapes: [2] vs. [3]\n\t [[{{{{node a}}}}]]',
            ),
            "Incompatible shapes: [2] vs. [3]",
        ),
        (ValueError('in user code:\n\n    File "a", line 1, in g\n\n    ValueError: Size 7.\n'), "Size 7"),
        (ValueError("One.\nTwo."), "One"),
        (EOFError(), "EOFError"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a"), "Permission denied"),
    ],
)
def test_the_cause_of_an_error_is_found_behind_what_wraps_it(error, expected):
    assert cause(error) == expected
