"""Archives whose headers and content contradict each other."""

import io
import zipfile

import numpy as np
import pytest

from athe_tf.data.npz import Archive
from athe_tf.utils.errors import InputError


def write(path, declared, stored):
    """An archive whose array says that it has so many bytes, and has others."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"shape": (declared,), "fortran_order": False, "descr": "|u1"}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(stored))


def test_an_array_with_the_bytes_of_its_shape_is_read(tmp_path):
    write(tmp_path / "a.npz", 4, 4)
    with Archive(tmp_path / "a.npz") as archive:
        assert archive.declared("a") == ((4,), np.dtype("u1"))
        np.testing.assert_array_equal(archive.read("a"), np.zeros(4))


@pytest.mark.parametrize("declared, stored", [(5, 4), (4, 5), (0, 1), (10**9, 4)])
def test_an_array_with_other_bytes_than_its_shape_is_damaged(declared, stored, tmp_path):
    write(tmp_path / "a.npz", declared, stored)
    message = f"is damaged: {declared:,} bytes according to its shape .*, {stored:,} bytes in the file"
    with Archive(tmp_path / "a.npz") as archive, pytest.raises(InputError, match=message):
        archive.declared("a")
