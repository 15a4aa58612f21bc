"""The slips of benchmarks/mutation fit the code as it is."""

import collections

import pytest

from benchmarks.mutation.slip import PACKAGES, slips_of


@pytest.mark.parametrize("package", PACKAGES)
def test_every_slip_can_be_made(package):
    problems = [f"{slip.id}: {problem}" for slip in slips_of(package) if (problem := slip.problem())]
    assert not problems, "\n".join(problems)


def test_every_slip_has_an_id_of_its_own():
    counts = collections.Counter(slip.id for package in PACKAGES for slip in slips_of(package))
    assert [name for name, count in counts.items() if count > 1] == []
