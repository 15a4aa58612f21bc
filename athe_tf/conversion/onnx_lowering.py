"""`lower`: what is left to compute of an ONNX graph once everything that no image changes is computed.

The graph is followed symbolically with a batch of a large prime number of images. Every size that is a
multiple of
this number is then a multiple of the batch, however it was computed, and all other sizes are constants. A
graph
that was exported for one image is generalized on the way: where it names sizes, the batch takes its place.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.conversion.onnx_file import OnnxGraph
from athe_tf.conversion.onnx_operators import (
    OPERATORS,
    Node,
    Value,
    compute,
    entered,
    first,
    kernel_last,
    reshaped,
    shape_of,
)
from athe_tf.utils.errors import check

# No model has a size that is a multiple of it.
_BATCH = 7919
_KNOWN = {"Shape", "Size", "Constant", *OPERATORS}


@dataclasses.dataclass
class LoweredGraph:
    """Nodes that depend on the images, and the constants that they read.

    Attributes:
        nodes: The operations that are left.
        constants: The arrays that they read.
        sizes: Shapes, and single sizes, that contain the batch: a negative number counts how many times.
        output: The name of the logits.
        classes: Their number.
        rows: Where rows of an image come before the batch on one axis, their number, by the name of the
        value.
    """

    nodes: list[Node]
    constants: dict[str, np.ndarray]
    sizes: dict[str, Any]
    output: str
    classes: int = 0
    rows: dict[str, int] = dataclasses.field(default_factory=dict)


def lower(graph: OnnxGraph, count: int = _BATCH) -> LoweredGraph:
    """Computes what does not depend on the images, and keeps the rest: for a batch, or for 1 image."""
    check_operators(graph.nodes)
    lowered = LoweredGraph([], {}, {}, graph.output)
    layout = graph.layout

    def follow(images):
        values: dict[str, Any] = dict(graph.constants)
        values[graph.images] = entered(images, layout.channels_first, layout.sizes, graph.dtype)
        for node in graph.nodes:
            _follow(node, values, layout.single and count == _BATCH, lowered)
        shape = shape_of(values[graph.output])
        sizes = ["batch" if size == _BATCH else size for size in shape]
        lowered.classes = classes_of(shape, count)
        check(
            lowered.classes > 1,
            f"The output '{graph.output}' has the shape {sizes}. Expected: [batch, classes], the logits. "
            "Export the classifier again, from images to logits.",
        )

    # Symbolic: nothing is computed but constants, outside of this function.
    spec = tf.TensorSpec([count, *layout.shape], tf.float32)
    tf.function(follow, autograph=False).get_concrete_function(spec)
    return _without_unused(lowered)


def classes_of(shape: Sequence, count: int) -> int:
    """The number of logits in an output of this shape for `count` images; 0 if it has no row of them.

    Example:

    >>> classes_of([8, 10, 1, 1], 8), classes_of([10], 1), classes_of([8, 3, 10], 8)
    (10, 10, 0)
    """
    rest = list(shape[1:] if shape[:1] == [count] and len(shape) > 1 else shape if count == 1 else [])
    known = None not in rest and len([size for size in rest if size != 1]) == 1
    return math.prod(rest) if known else 0


def check_operators(nodes: Sequence[Node]) -> None:
    """Raises `InputError`, with the nodes, for operations that are not known."""
    unknown = {node.operator: node.name for node in nodes if node.operator not in _KNOWN}
    named = ", ".join(f"{operator} (node '{name}')" for operator, name in unknown.items())
    check(
        not unknown,
        f"There is no conversion for {named}. Supported are {', '.join(sorted(_KNOWN))}. Export the model "
        "with these, or write its twin in Keras.",
    )


def _follow(node: Node, values: dict[str, Any], single: bool, lowered: LoweredGraph) -> None:
    """Computes one node symbolically, and adds it to what is left unless its results are constants."""
    inputs = [values[name] if name else None for name in node.inputs]
    if node.operator in ("Shape", "Size", "Constant"):
        values[node.outputs[0]] = _known(node, inputs)
        return
    if not any(isinstance(one, Value) for one in inputs):
        with tf.init_scope():
            found = compute(node, *inputs)
            arrays = [np.asarray(first(one)) for one in found]
        if not any(size and size % _BATCH == 0 for array in arrays for size in array.shape):
            values.update(zip(node.outputs, arrays, strict=False))
            return
    rows = max(lowered.rows.get(name, 1) for name in node.inputs)
    if node.operator == "Reshape":
        node, inputs, rows = _reshape_of_batch(node, inputs, single, rows)
    if node.operator == "Concat" and single:
        node = _concat_of_batch(node, values, lowered)
        inputs = [values[name] for name in node.inputs]
    found = compute(node, *inputs)
    values.update(zip(node.outputs, found, strict=False))
    lowered.rows.update(dict.fromkeys(node.outputs, rows))
    lowered.nodes.append(_emitted(node, inputs, found, lowered))


def _known(node: Node, inputs: list) -> np.ndarray:
    """What is known without computing: a constant, or the shape of a value."""
    if node.operator == "Constant":
        kind, value = next(iter(node.attributes.items()))
        dtype = {"value_float": "float32", "value_floats": "float32"}.get(kind)
        return np.asarray(value, dtype)
    shape = shape_of(inputs[0])
    node.require(None not in shape, "asks for a shape that depends on the image")
    if node.operator == "Size":
        return np.asarray(math.prod(shape), "int64")
    return np.asarray(shape[slice(node.get("start"), node.get("end"))], "int64")


def _reshape_of_batch(node: Node, inputs: list, single: bool, rows: int) -> tuple[Node, list, int]:
    """A `Reshape` with the sizes that it has for a batch, and how many rows of each image lie before the
    batch.

    `rows` is that number before: where one axis holds the batch and rows of its images, the rows may come
    first.
    """
    wanted = node.get("shape") if len(inputs) < 2 else np.asarray(inputs[1]).tolist()
    old = shape_of(inputs[0])
    new, rows = _new_shape(node, old, reshaped(node, old, wanted), single, rows)
    names = (node.inputs[0], f"{node.outputs[0]}:shape")
    node = dataclasses.replace(node, inputs=names, attributes={"allowzero": 1})
    return node, [inputs[0], np.asarray(new)], rows


def _filled(sizes: list[int], total: int) -> list[int]:
    known = math.prod(size for size in sizes if size != -1)
    return [total // max(known, 1) if size == -1 else size for size in sizes]


def _new_shape(node: Node, old: list, wanted: list, single: bool, rows: int) -> tuple[list[int], int]:
    """The sizes after `Reshape`, with the batch where it belongs, and the rows of an image before it."""
    direct = _filled(wanted, math.prod(old))
    if not single and math.prod(direct) == math.prod(old):
        return direct, 1
    of_one, wanted = ([n // _BATCH if n and n % _BATCH == 0 else n for n in sizes] for sizes in (old, wanted))
    new = _filled(wanted, math.prod(of_one))
    node.require(math.prod(new) == math.prod(of_one), f"makes {new} of {of_one}")
    axis = next((i for i, size in enumerate(old) if size and size % _BATCH == 0), None)
    if axis is None:
        return new, 1
    # The batch stays where as many values lie in front of it as before.
    before = math.prod(of_one[:axis]) * rows
    places = [i for i in range(len(new)) if math.prod(new[:i]) == before]
    node.require(bool(places), "mixes the images of a batch")
    place = next((i for i in places if new[i] == 1), places[-1])
    rows = 1
    if place > 0 and new[place] != 1 and len(new) - place <= len(old) - axis - 1:
        # The axis of the batch was dropped, to multiply row by row.
        place, rows = place - 1, new[place - 1]
    return [size * _BATCH if i == place else size for i, size in enumerate(new)], rows


def _concat_of_batch(node: Node, values: dict[str, Any], lowered: LoweredGraph) -> Node:
    """Repeats what is the same for all images, such as the class token of a transformer, for each of them."""
    shapes = [shape_of(values[name]) for name in node.inputs]
    axis, names = node.get("axis", 1) % len(shapes[0]), list(node.inputs)
    largest = [1 if i == axis else max(sizes) for i, sizes in enumerate(zip(*shapes, strict=True))]
    for i, shape in enumerate(shapes):
        sizes = [_BATCH if n == 1 and new % _BATCH == 0 else n for n, new in zip(shape, largest, strict=True)]
        if sizes != shape:
            name, wanted = f"{node.outputs[0]}:{i}", f"{node.outputs[0]}:{i}:sizes"
            values[wanted] = np.asarray(sizes)
            _follow(Node("Expand", (names[i], wanted), (name,)), values, True, lowered)
            names[i] = name
    return dataclasses.replace(node, inputs=tuple(names))


def _emitted(node: Node, inputs: list, found: tuple, lowered: LoweredGraph) -> Node:
    """A node as it is kept: its constants in `lowered`, its attributes as plain values."""
    if node.operator == "Expand":
        inputs = [inputs[0], np.asarray(shape_of(found[0]))]
        node = dataclasses.replace(node, inputs=(node.inputs[0], f"{node.outputs[0]}:shape"))
    if node.operator == "Conv" and isinstance(inputs[1], np.ndarray):
        with tf.init_scope():
            inputs = [inputs[0], kernel_last(inputs[1]).numpy(), *inputs[2:]]
        names = (node.inputs[0], f"{node.inputs[1]}:last", *node.inputs[2:])
        node = dataclasses.replace(node, inputs=names, attributes={**node.attributes, "kernel_last": 1})
    for name, value in zip(node.inputs, inputs, strict=True):
        if isinstance(value, np.ndarray):
            sizes = np.ravel(value).tolist() if value.dtype.kind == "i" and value.size <= 8 else []
            counts = [-(size // _BATCH) if size and size % _BATCH == 0 else size for size in sizes]
            if value.ndim < 2 and counts != sizes:
                lowered.sizes[name] = counts if value.ndim else counts[0]
            else:
                lowered.constants[name] = value
    arrays = {name: value for name, value in node.attributes.items() if isinstance(value, np.ndarray)}
    plain = dict(node.attributes)
    for name, value in arrays.items():
        plain |= {name: np.ravel(value).tolist(), f"{name}_dtype": value.dtype.name}
    return dataclasses.replace(node, attributes=plain)


def _without_unused(lowered: LoweredGraph) -> LoweredGraph:
    """Without what does not lead to the output."""
    used, kept = {lowered.output}, []
    for node in reversed(lowered.nodes):
        if used & set(node.outputs):
            used.update(node.inputs)
            kept.append(node)
    constants = {name: value for name, value in lowered.constants.items() if name in used}
    sizes = {name: value for name, value in lowered.sizes.items() if name in used}
    return LoweredGraph(kept[::-1], constants, sizes, lowered.output, lowered.classes)
