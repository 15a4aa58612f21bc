"""Files in the safetensors format: a JSON header and raw bytes, read and written with NumPy alone.

Reference:
    https://github.com/huggingface/safetensors, "Format".
"""

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import replacing

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # the upper half of a float32
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items() if name != "BF16"}
# The limit of the reference implementation: a larger header is a broken file.
_LARGEST_HEADER = 100_000_000


def read_safetensors(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name; bfloat16 becomes float32, which is exact.

    Args:
        path: The file. One that is truncated or inconsistent is an `InputError`.
    """
    content = pathlib.Path(path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    try:
        check(len(content) >= 8 and length <= min(_LARGEST_HEADER, len(content) - 8), "the header is cut off")
        header = json.loads(content[8 : 8 + length])
        check(isinstance(header, dict), "the header is not a JSON object")
        header.pop("__metadata__", None)
        data = memoryview(content)[8 + length :]
        return {name: _array(name, entry, data) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"'{path}' is not a complete safetensors file: {error}. Download or write it again."
        ) from error


def _array(name: str, entry: Any, data: memoryview) -> np.ndarray:
    kind, shape = entry["dtype"], tuple(entry["shape"])
    check(kind in _DTYPES, f"the tensor '{name}' has the dtype {kind}, not one of {', '.join(_DTYPES)}")
    dtype = np.dtype(_DTYPES[kind])
    start, end = entry["data_offsets"]
    check(
        0 <= start <= end <= len(data) and end - start == math.prod(shape) * dtype.itemsize,
        f"the bytes {start} to {end} of the tensor '{name}' do not fit its shape {shape} or the file",
    )
    array = np.frombuffer(data[start:end], dtype).reshape(shape)
    return (array.astype("<u4") << 16).view("<f4") if kind == "BF16" else array


def write_safetensors(path: str | pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as a safetensors file, once it is complete.

    Example:

    >>> write_safetensors("net.safetensors", {"fc.bias": np.zeros(10, "float32")})
    >>> read_safetensors("net.safetensors")["fc.bias"].shape
    (10,)

    Args:
        path: The file; it is replaced if it exists.
        arrays: From a name to an array.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, value in arrays.items():
        array = np.asarray(value)
        part = array.astype(array.dtype.newbyteorder("<")).tobytes()
        offsets = [end, end := end + len(part)]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        parts.append(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of eight bytes
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *parts]))
