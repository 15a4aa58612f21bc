"""Whether two identities are of the same job."""

import pytest

from athe_tf.jobs.journal import as_json, differences, same_job


def test_the_same_identity_has_no_differences_in_whichever_order():
    assert differences({"seed": 0, "norm": "l2"}, {"norm": "l2", "seed": 0}) == []


@pytest.mark.parametrize(
    "ours, stored, expected",
    [
        ({"seed": 1}, {"seed": 0}, ["seed=1 (there: 0)"]),
        ({"seed": 1}, {}, ["seed=1 (there: None)"]),
        ({}, {"norm": "l2"}, ["norm=None (there: 'l2')"]),
        ({"b": 1, "a": 2}, {"a": 1, "b": 2}, ["a=2 (there: 1)", "b=1 (there: 2)"]),
    ],
)
def test_every_entry_that_differs_or_is_missing_is_named(ours, stored, expected):
    assert differences(ours, stored) == expected


def test_an_identity_is_compared_as_it_is_read_back():
    assert as_json({"size": (2, 3)}) == {"size": [2, 3]}
    assert differences(as_json({"size": (2, 3)}), {"size": [2, 3]}) == []


def test_what_is_not_known_is_the_same_as_nothing():
    assert same_job({"size": (2, 3)}, {"size": [2, 3]})
    assert not same_job({"size": (2, 3)}, {"size": [2, 4]})
    assert not same_job(None, None) and not same_job({}, None) and not same_job({}, "text")


def test_entries_are_written_as_told():
    entry = "{name}: {ours} (in the backup: {stored})"
    assert differences({"images": 3}, {}, entry, lambda value: "none" if value is None else str(value)) == [
        "images: 3 (in the backup: none)"
    ]
