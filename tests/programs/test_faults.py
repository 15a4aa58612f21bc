"""A sample of `benchmarks/faults.py`: programs whose file operations fail, or that are killed there."""

import dataclasses

import pytest

from benchmarks import faults

# AutoAttack takes too long here.
QUICK = tuple(flag.replace("autoattack", "pgd-2") for flag in faults.CASES["evaluate"].flags)
CASES = faults.CASES | {"evaluate": dataclasses.replace(faults.CASES["evaluate"], flags=QUICK)}


@pytest.mark.parametrize("program", CASES)
def test_nothing_is_lost_when_a_file_operation_fails_or_is_the_last(program, tmp_path):
    case = CASES[program]
    before, expected, points = faults.undisturbed(case, tmp_path)
    assert expected and len(points) > 10
    for share, fault in ((0.3, "SIGKILL"), (0.6, "ENOSPC")):
        outcome = faults.disturb(case, before, expected, 1 + int(share * len(points)), fault)
        assert outcome.problem is None, outcome


def test_a_lost_file_is_noticed(tmp_path):
    """The harness itself: a result without one of its files is another result."""
    (tmp_path / "one.json").write_text("{}")
    (tmp_path / "two.json").write_text("{}")
    expected = faults.result_of(tmp_path)
    assert faults.difference(tmp_path, expected) is None
    (tmp_path / "two.json").write_text('{"a": 1}')
    assert "two.json" in faults.difference(tmp_path, expected)
    (tmp_path / "one.json").write_text("{")
    assert faults.broken_files(tmp_path) == ["one.json"]
