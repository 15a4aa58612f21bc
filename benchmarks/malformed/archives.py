"""NumPy archives that lie about themselves, are damaged, or do not hold what a data set needs."""

import io
import pathlib
import struct
import zipfile
from collections.abc import Callable, Iterator

import numpy as np


def good_arrays() -> dict[str, np.ndarray]:
    """The arrays of a small data set with three classes."""
    random = np.random.RandomState(0)
    return {
        "x_train": random.randint(0, 256, [24, 6, 6, 3]).astype("uint8"),
        "y_train": np.arange(24) % 3,
        "x_test": random.randint(0, 256, [12, 6, 6, 3]).astype("uint8"),
        "y_test": np.arange(12) % 3,
    }


def array_bytes(array: np.ndarray) -> bytes:
    """The `.npy` file of an array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header_bytes(shape: tuple, dtype: str = "|u1") -> bytes:
    """The header of a `.npy` file without its data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def write(path: pathlib.Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """An archive of the members."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def good_members(**changes) -> dict[str, bytes]:
    """The members of a good archive, with some replaced by bytes or left out by `None`."""
    members = {f"{name}.npy": array_bytes(array) for name, array in good_arrays().items()}
    members |= {f"{name}.npy": content for name, content in changes.items()}
    return {name: content for name, content in members.items() if content is not None}


def patched(path: pathlib.Path, field: str, value: int) -> None:
    """Changes a field in all headers of a zip file: `"flags"`, `"method"` or `"size"`."""
    local, central, form = {"flags": (6, 8, "<H"), "method": (8, 10, "<H"), "size": (22, 24, "<I")}[field]
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\3\4", local), (b"PK\1\2", central)):
        start = content.find(signature)
        while start >= 0:
            struct.pack_into(form, content, start + offset, value)
            start = content.find(signature, start + 4)
    path.write_bytes(content)


def malformed_arrays() -> Iterator[tuple[str, dict]]:
    """Arrays that cannot be a data set: `(name, changes of the good ones)`."""
    good = good_arrays()
    x, y = good["x_train"], good["y_train"]
    for key in good:
        yield f"without-{key}", {key: None}
    for name, images in {
        "channels-first": x.transpose(0, 3, 1, 2),
        "channels-first-gray": x[..., :1].transpose(0, 3, 1, 2),
        "five-axes": x[..., None],
        "two-axes": x[:, 0, :, 0],
        "no-axes": np.array(3, "uint8"),
        "no-images": x[:0],
        "no-pixels": x[:, :0],
        "no-channels": x[..., :0],
        "other-shape-than-test": x[:, :5],
        "zeros-and-ones": x % 2,
        "int64": x.astype("int64"),
        "bool": x > 9,
        "complex": x.astype("complex64"),
        "text": x.astype("U3"),
        "bytes": x.astype("S3"),
        "dates": x.astype("M8[s]"),
        "floats-of-255": x.astype("float32"),
        "floats-below-0": x / 255 - 0.5,
        "nan": np.where(x > 250, np.nan, x / 255),
        "infinite": np.where(x > 250, np.inf, x / 255),
        "records": np.zeros([24, 6, 6, 3], [("a", "u1"), ("b", "u1")]),
    }.items():
        yield f"images-{name}", {"x_train": images}
    for name, labels in {
        "float": y.astype("float32"),
        "nan": np.where(y == 1, np.nan, y),
        "text": y.astype("U3"),
        "one-hot": np.eye(3, dtype="int64")[y],
        "too-few": y[:-1],
        "too-many": np.append(y, 0),
        "none": y[:0],
        "no-axes": np.array(1),
        "negative": y - 1,
        "one-class": y * 0,
        "with-a-gap": y * 2,
        "10**10": np.where(np.arange(24) == 3, 10**10, y),
        "10**14": np.where(np.arange(24) == 3, 10**14, y),
        "2**64-1": np.where(np.arange(24) == 3, 2**64 - 1, y.astype("uint64")),
    }.items():
        yield f"labels-{name}", {"y_train": labels}
    yield "test-labels-out-of-range", {"y_test": good["y_test"] + 3}
    yield "validation-without-labels", {"x_validation": x}


def damaged(path: pathlib.Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Ways to write a damaged archive to `path`: `(name, function that writes it)`."""
    huge = header_bytes((10**15, 6, 6, 3))
    contents = {
        "header-of-26-pebibytes": huge,
        "header-of-a-negative-size": header_bytes((-1, 6, 6, 3)) + bytes(108),
        "header-of-more-than-is-there": header_bytes((24, 6, 6, 3)) + bytes(100),
        "header-of-less-than-is-there": header_bytes((24, 6, 6, 3)) + bytes(24 * 108 + 1),
        "header-of-overflowing-shape": header_bytes((2**62, 2**62, 6, 3)),
        "header-that-is-no-dictionary": b"\x93NUMPY\x01\x00\x06\x00[1, 2]",
        "header-of-an-unknown-version": b"\x93NUMPY\x09\x00\x06\x00{}    ",
        "header-cut": huge[:20],
        "header-deep": b"\x93NUMPY\x01\x00\xe8\x03" + b"(" * 1000,
        "empty-member": b"",
        "text-member": b"not an array",
        "pickle": array_bytes(np.array([{}, None], dtype=object)),
    }
    for name, content in contents.items():
        yield name, lambda content=content: write(path, good_members(x_train=content))
    plain = {name.removesuffix(".npy"): content for name, content in good_members().items()}
    yield "members-that-are-not-npy", lambda: write(path, {f"{name}.txt": b"1" for name in plain})
    yield "members-without-suffix", lambda: write(path, dict.fromkeys(plain, b"1"))
    for field, value in (("flags", 1), ("method", 99), ("method", 8), ("method", 14), ("size", 2**31)):
        yield f"{field}-{value}", lambda field=field, value=value: _write_patched(path, field, value)
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"corrupt-compression-{method}", lambda method=method: _write_corrupt(path, method)
    bomb = header_bytes((4 * 2**20, 32, 32, 1))
    yield "bomb", lambda: _write_bomb(path, bomb, 4 * 2**30)
    for name, content in {
        "empty-file": b"",
        "text-file": b"x_train",
        "single-array": array_bytes(good_arrays()["x_train"]),
        "pickle-file": b"\x80\x04N.",
        "zip-of-nothing": b"PK\5\6" + bytes(18),
    }.items():
        yield name, lambda content=content: _write_bytes(path, content)
    for part in (0.2, 0.5, 0.9, 0.99):
        yield f"cut-at-{part:g}", lambda part=part: _write_cut(path, part)


def _write_bytes(path, content) -> None:
    path.write_bytes(content)


def _write_patched(path, field, value) -> None:
    write(path, good_members())
    patched(path, field, value)


def _write_corrupt(path, method) -> None:
    write(path, good_members(), method)
    content = bytearray(path.read_bytes())
    for place in range(60, 400):
        content[place] ^= 0x5A
    path.write_bytes(content)


def _write_bomb(path, header, size) -> None:
    """Zeros of `size` bytes, compressed a thousand times."""
    write(path, good_members(x_train=None), zipfile.ZIP_DEFLATED)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("x_train.npy", "w", force_zip64=True) as file,
    ):
        file.write(header)
        block = bytes(2**24)
        for _ in range(size // len(block)):
            file.write(block)


def _write_cut(path, part) -> None:
    write(path, good_members())
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
