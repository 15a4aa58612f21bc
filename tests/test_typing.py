"""Type checkers and editors see the library's own types behind its public calls, and accept the docs."""

import pathlib
import re
import subprocess
import sys

import pytest

from tests import doc_examples

ROOT = pathlib.Path(__file__).parents[1]
CALLS = ROOT / "tests" / "typing" / "ten_calls.py"
# What a line of `ten_calls.py` reveals, by its comment.
EXPECTED = {
    number: line.rpartition("# ")[2]
    for number, line in enumerate(CALLS.read_text().splitlines(), start=1)
    if line.startswith("reveal_type(")
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """What mypy says of these calls and of the examples in the docs, with the project's settings."""
    examples = doc_examples.write(tmp_path_factory.mktemp("examples"))
    # The package is found from the root; the files given replace the `packages` of the settings.
    command = [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", CALLS, *examples]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def revealed(output):
    """From the number of a line of `ten_calls.py` to the type that mypy reveals there."""
    notes = re.findall(r'ten_calls\.py:(\d+): note: Revealed type is "(.+)"', output)
    return {int(line): kind for line, kind in notes}


def test_mypy_accepts_the_calls_and_the_examples_of_the_docs(output):
    assert len(list(doc_examples.examples())) > 10
    assert ": error:" not in output and "no issues found" in output, output


@pytest.mark.parametrize("line", EXPECTED, ids=EXPECTED.values())
def test_a_call_reveals_its_type(line, revealed):
    short = re.sub(r"[\w.]+\.(\w+)", r"\1", revealed[line])
    assert short == EXPECTED[line], f"line {line} of {CALLS.name}: {revealed[line]}"


def test_ten_calls_and_more_reveal_no_any(revealed):
    assert len(EXPECTED) >= 10 and set(revealed) == set(EXPECTED)
    assert "Any" not in set(revealed.values())
