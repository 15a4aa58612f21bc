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
    # A folder of its own around it: the harness looks for temporary files there, and the folders of other
    # tests, whose programs may still be writing, lie beside `tmp_path`.
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "one.json").write_text("{}")
    (folder / "two.json").write_text("{}")
    expected = faults.result_of(folder)
    assert faults.difference(folder, expected) is None
    (folder / "two.json").write_text('{"a": 1}')
    assert "two.json" in faults.difference(folder, expected)
    (folder / "two.json").unlink()
    assert faults.difference(folder, expected) == "another result: two.json"
    (folder / "one.json").write_text("{")
    assert faults.broken_files(folder) == ["one.json"]


@pytest.mark.parametrize("place", ["work/.athe_tf-x", ".athe_tf-x"])
def test_a_temporary_file_that_is_left_is_noticed(place, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / place).write_text("")
    assert faults.difference(tmp_path / "work", {}) == "temporary files are left: .athe_tf-x"
