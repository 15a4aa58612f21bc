"""Type checkers and editors see the library's own types behind its public calls."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
CALLS = ROOT / "tests" / "typing" / "ten_calls.py"
# What a line of `ten_calls.py` reveals, by its comment.
EXPECTED = {
    number: line.rpartition("# ")[2]
    for number, line in enumerate(CALLS.read_text().splitlines(), start=1)
    if line.startswith("reveal_type(")
}


@pytest.fixture(scope="module")
def revealed():
    """From the number of a line to the type that mypy reveals there, with the project's settings."""
    # The package is found from the root; the file given replaces the `packages` of the settings.
    command = [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", str(CALLS)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert ": error:" not in output, output
    return {int(line): kind for line, kind in re.findall(r':(\d+): note: Revealed type is "(.+)"', output)}


@pytest.mark.parametrize("line", EXPECTED, ids=EXPECTED.values())
def test_a_call_reveals_its_type(line, revealed):
    short = re.sub(r"[\w.]+\.(\w+)", r"\1", revealed[line])
    assert short == EXPECTED[line], f"line {line} of {CALLS.name}: {revealed[line]}"


def test_ten_calls_and_more_reveal_no_any(revealed):
    assert len(EXPECTED) >= 10 and set(revealed) == set(EXPECTED)
    assert "Any" not in set(revealed.values())
