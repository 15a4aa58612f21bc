"""Files of a data set are recognized by their content."""

import numpy as np
import pytest
from PIL import Image

from athe_tf.data.sources import source_fingerprint


def make_npz(place, value):
    np.savez(place / "d.npz", x_test=np.full([2, 4, 4, 1], value))
    return {"name": f"npz:{place / 'd.npz'}"}


def make_folder(place, value):
    for part in ("train", "test"):
        for name in "ab":
            (place / part / name).mkdir(parents=True)
            # Files of one size, whatever the value.
            (place / part / name / "0.png").write_bytes(bytes([value]) * 50)
    return {"name": f"folder:{place}"}


def make_prepared(place, value):
    version = place / "mnist" / "3.0.1"
    version.mkdir(parents=True)
    (version / "mnist-test.tfrecord-00000-of-00001").write_bytes(bytes([value]) * 50)
    return {"name": "mnist", "data_dir": place}


@pytest.mark.parametrize("make", [make_npz, make_folder, make_prepared])
def test_a_fingerprint_is_of_the_content_and_not_of_the_place(make, tmp_path):
    found = []
    for place, value in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / place).mkdir()
        found.append(source_fingerprint(**make(tmp_path / place, value)))
    assert found[0] == found[1] != found[2] and None not in found


def test_every_split_counts(tmp_path):
    settings = make_folder(tmp_path, 1)
    before = source_fingerprint(**settings)
    Image.new("L", (4, 4)).save(tmp_path / "train" / "b" / "1.png")
    assert source_fingerprint(**settings) != before


def test_names_and_missing_files_have_none(tmp_path):
    assert source_fingerprint("digits") is source_fingerprint("mnist") is None
    assert source_fingerprint("digits", tmp_path) is source_fingerprint("mnist", tmp_path) is None
    missing = ("npz:nothing.npz", f"npz:{tmp_path}", "npz:/dev/zero", "folder:nothing", f"folder:{tmp_path}")
    assert {source_fingerprint(name) for name in missing} == {None}
