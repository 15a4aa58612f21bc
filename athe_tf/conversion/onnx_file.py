"""`read_onnx`: an ONNX file of a classifier as plain data, its nodes and its constants; nothing is
executed.
"""

import dataclasses
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from athe_tf.conversion.onnx_operators import Node
from athe_tf.utils.errors import InputError, cause, check, check_model_file
from athe_tf.utils.registry import import_optional

# Protocol buffers, and so ONNX files, end here; larger models keep their weights beside the file.
_LARGEST_FILE = 2**31 - 1
_FLOATS = {"FLOAT": "float32", "FLOAT16": "float16", "DOUBLE": "float64"}
_REMEDY = "Export the classifier again, from one batch of images to one of logits."


class ImageLayout(NamedTuple):
    """How a file takes images.

    Attributes:
        shape: Height, width and channels of an image.
        channels_first: Whether the channels come before the pixels.
        sizes: The shape of the input; `None` for a batch of any size.
    """

    shape: tuple[int, int, int]
    channels_first: bool
    sizes: tuple[int | None, ...]

    @property
    def single(self) -> bool:
        """Whether it takes one image at a time."""
        return self.sizes[0] is not None

    @property
    def batched(self) -> bool:
        """Whether the first axis is that of a batch, of any size or of one image."""
        return self.sizes[0] in (None, 1)


@dataclasses.dataclass(frozen=True)
class OnnxGraph:
    """A classifier as ONNX describes it.

    Attributes:
        nodes: The operations, in the order in which they are computed.
        constants: The arrays of the file by name.
        images: The name of the input.
        layout: How it takes images.
        dtype: The type of its input.
        output: The name of the output.
    """

    nodes: Sequence[Node]
    constants: dict[str, np.ndarray]
    images: str
    layout: ImageLayout
    dtype: str
    output: str


def image_layout(path, shape: Sequence) -> ImageLayout:
    """How an input of this shape takes images; a size that is not known is no positive number.

    Gray images may lack the axis of their channel, or be flattened if they are squares. `InputError` for what
    are no images.

    Example:

    >>> image_layout("net.onnx", ["N", 3, 32, 32])
    ImageLayout(shape=(32, 32, 3), channels_first=True, sizes=(None, 3, 32, 32))
    """
    sizes = tuple(size if isinstance(size, int) and size > 0 else None for size in shape)
    batched = len(sizes) == 4 or sizes[:1] in ((None,), (1,))
    batch, rest = (sizes[0], sizes[1:]) if batched else (1, sizes)
    long = [size for size in rest if size != 1]
    if len(long) == 1 and long[0] is not None and long[0] >= 16 and math.isqrt(long[0]) ** 2 == long[0]:
        rest = (math.isqrt(long[0]),) * 2
    elif len(rest) == 3 and len(long) == 2 and not batched:
        rest = tuple(long)
    rest = (*rest, 1) if len(rest) == 2 else rest
    check(
        len(rest) == 3 and None not in rest,
        f"'{path}' takes inputs of shape {list(sizes)}. Expected: images, [batch, channels, height, width] "
        "or [batch, height, width, channels], and only the size of the batch may be open; or a flattened "
        "square of gray pixels. Export it with images of a fixed size.",
    )
    check(
        batch in (None, 1),
        f"'{path}' takes exactly {batch} images at a time. Expected: any number, or 1. Export it with a "
        "batch of 1.",
    )
    a, b, c = (int(size or 0) for size in rest)
    first, last = a in (1, 3), c in (1, 3)
    first = b == c if first == last else first
    return ImageLayout((b, c, a) if first else (a, b, c), first, sizes)


def check_ends(path, inputs: Sequence, outputs: Sequence) -> None:
    """Raises `InputError` unless a file has one input and one output."""
    check(
        (len(inputs), len(outputs)) == (1, 1),
        f"'{path}' has {len(inputs)} inputs and {len(outputs)} outputs. Expected: one input, images, and one "
        "output, logits. Export a model that has only these.",
    )


def read_onnx(path: str | os.PathLike) -> OnnxGraph:
    """Reads a file, with weights inside or in other files of the same folder."""
    path = pathlib.Path(path)
    onnx = import_optional(
        "onnx", f"onnx is needed to read '{path}'. Install it with: pip install 'athe_tf[onnx]'."
    )
    check_model_file(path)
    size = path.stat().st_size
    check(
        size <= _LARGEST_FILE,
        f"'{path}' has {size / 2**30:.1f} GiB, and an ONNX file has less than 2. Save it with its weights "
        "in a file of their own: onnx.save(model, FILE, save_as_external_data=True).",
    )
    try:
        model = onnx.load(str(path), load_external_data=False)
        check(len(model.graph.node) > 0, "it has no operations")
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        constants = {one.name: _array(onnx, path, one) for one in model.graph.initializer}
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"'{path}' is not an ONNX file, or is damaged: {cause(error)}. Copy it again."
        ) from error
    return _graph(onnx, path, model, constants)


def _graph(onnx, path: pathlib.Path, model, constants: dict[str, np.ndarray]) -> OnnxGraph:
    graph = model.graph
    inputs = [one for one in graph.input if one.name not in constants]
    check_ends(path, inputs, graph.output)
    tensor = inputs[0].type.tensor_type
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
    known = kind in _FLOATS
    check(known, f"'{path}' takes inputs of type {kind}. Expected: {', '.join(_FLOATS)}. {_REMEDY}")
    layout = image_layout(path, [one.dim_value for one in tensor.shape.dim])
    opset = max([one.version for one in model.opset_import if one.domain in ("", "ai.onnx")], default=1)
    nodes, names = [], {inputs[0].name, *constants}
    for index, one in enumerate(graph.node):
        name = one.name or f"number {index + 1}"
        check(
            one.domain in ("", "ai.onnx"),
            f"The operation {one.domain}.{one.op_type} (node '{name}') of '{path}' is not one of ONNX "
            f"itself, and is not supported. {_REMEDY}",
        )
        missing = [each for each in one.input if each and each not in names]
        check(
            not missing,
            f"The node '{name}' of '{path}' reads '{missing[:1]}', which no node before it writes.",
        )
        names.update(one.output)
        attributes = {each.name: _attribute(onnx, path, each) for each in one.attribute}
        nodes.append(Node(one.op_type, tuple(one.input), tuple(one.output), attributes, opset, name))
    output = graph.output[0].name
    check(output in names, f"No node of '{path}' writes its output '{output}'. {_REMEDY}")
    return OnnxGraph(nodes, constants, inputs[0].name, layout, _FLOATS[kind], output)


def _attribute(onnx, path: pathlib.Path, attribute) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return _array(onnx, path, value)
    return value if isinstance(value, (int, float)) else None if hasattr(value, "node") else list(value)


def _array(onnx, path: pathlib.Path, tensor) -> np.ndarray:
    """The values of a tensor; what lies outside of the folder of the file is refused."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return onnx.numpy_helper.to_array(tensor)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    inside = location not in ("", ".", "..") and not set(location) & {"/", "\\", "\0"}
    file = path.parent / location if inside else path.parent
    # A link may lead out of the folder.
    inside = inside and file.resolve().parent == path.parent.resolve()
    check(
        inside,
        f"The weights '{tensor.name}' of '{path}' are in '{location}', outside of its folder, and are "
        "refused. Save the model with its weights beside it.",
    )
    check(file.is_file(), f"The weights of '{path}' are in '{file.name}', and that is missing. Copy it, too.")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    count, offset = math.prod(tensor.dims), int(entries.get("offset", 0))
    length = int(entries.get("length", count * dtype.itemsize))
    check(
        length == count * dtype.itemsize and 0 <= offset <= file.stat().st_size - length,
        f"The weights '{tensor.name}' of '{path}', {list(tensor.dims)}, do not fit {length:,} bytes at "
        f"{offset:,} of '{file.name}', which has {file.stat().st_size:,}. Copy both files again.",
    )
    return np.fromfile(file, dtype, count, offset=offset).reshape(tuple(tensor.dims))
