"""The operators of ONNX on TensorFlow tensors, with gradients: `OPERATORS`, one small function for each.

A function takes its node and the node's inputs: `Value`s, NumPy arrays for constants, lists of sizes for
shapes
that contain the batch, and `None` for an input that is left out. It returns one result, or a tuple of them.
What
it cannot compute exactly it refuses: nothing is approximated.

ONNX puts channels first, TensorFlow's convolutions on CPUs want them last. A `Value` has both orders, each
made
when it is first asked for, so that maps stay in TensorFlow's order from one convolution to the next.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.utils.errors import InputError, check

#: ONNX' numbers of element types.
DTYPES = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16"}
DTYPES |= {11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16"}
# A constant that a file asks for must not fill the memory.
_LARGEST = 2**28
_FAR = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation of a graph: its operator, the names of its inputs and outputs, attributes, opset."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    opset: int = 13
    name: str = ""

    def get(self, name: str, default=None):
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    def refuse(self, reason: str) -> InputError:
        """The error for something that this node asks for and that is not supported."""
        return InputError(f"The operation {self.operator} (node '{self.name}') {reason}.")

    def require(self, condition: bool, reason: str) -> None:
        """Raises `refuse(reason)` unless the condition holds."""
        if not condition:
            raise self.refuse(reason)


class Value:
    """A tensor whose axes are ordered as in ONNX, `first`, or with the channels at the end, `last`."""

    def __init__(self, first=None, last=None):
        self._first, self._last = first, last
        self.prefers_last = first is None

    @property
    def rank(self) -> int:
        return len((self._last if self._first is None else self._first).shape)

    @property
    def first(self):
        """In the order of ONNX."""
        if self._first is None:
            self._first = tf.transpose(self._last, [0, self.rank - 1, *range(1, self.rank - 1)])
        return self._first

    @property
    def last(self):
        """With the channels at the end."""
        if self._last is None:
            self._last = tf.transpose(self._first, _to_last(self.rank))
        return self._last

    @property
    def shape(self) -> list:
        """The sizes in the order of ONNX; `None` for one that is not known."""
        if self._first is not None:
            return list(self._first.shape)
        batch, *sides, channels = self._last.shape
        return [batch, channels, *sides]


def _to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def first(value):
    """A tensor, an array or sizes in the order of ONNX."""
    return value.first if isinstance(value, Value) else value


def last(value):
    """The same with the channels at the end."""
    if isinstance(value, Value):
        return value.last
    return np.transpose(value, _to_last(np.ndim(value)))


def shape_of(value) -> list:
    """The sizes of a value in the order of ONNX."""
    return value.shape if isinstance(value, Value) else list(np.shape(value))


def entered(images, channels_first: bool, sizes, dtype: str) -> Value:
    """Images `[N, H, W, C]` as the input of a graph, of these sizes."""
    images = tf.cast(images, dtype)
    height, width, channels = images.shape[1:]
    if tuple(sizes[1:]) == ((channels, height, width) if channels_first else (height, width, channels)):
        return Value(last=images) if channels_first else Value(images)
    images = Value(last=images).first if channels_first else images
    return Value(tf.reshape(images, [-1, *sizes[1:]] if sizes[0] in (None, 1) else sizes))


#: From the name of an operator to the function that computes it.
OPERATORS: dict[str, Callable] = {}


def operator(*names: str):
    """Enters a function in `OPERATORS`."""

    def enter(function):
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def _constant(node: Node, value, what: str):
    """An input that must be known before the model is called, as a list."""
    node.require(not isinstance(value, Value), f"computes its {what} from the image; it must be constant")
    return value if isinstance(value, list) else np.asarray(value).tolist()


def _argument(node: Node, name: str, value, default=None) -> Any:
    """An argument that newer opsets have as a constant input and older ones as an attribute."""
    return node.get(name, default) if value is None else _constant(node, value, name)


def _axes(axes, rank: int) -> list[int]:
    return [axis % rank for axis in ([axes] if isinstance(axes, int) else axes)]


def _bounded(node: Node, sizes) -> None:
    known = math.prod(size for size in sizes if isinstance(size, int))
    node.require(known <= _LARGEST, f"makes a tensor of {known:,} elements, more than {_LARGEST:,}")


# Element by element.


def _elementwise(function: Callable):
    """An operator on tensors of any one shape, or of shapes that broadcast."""

    def compute(node: Node, *values):
        return _broadcast(function, *_old_broadcast(node, values))

    return compute


def _old_broadcast(node: Node, values):
    """Inputs of opset 6, where an attribute says on which axes the second one lies."""
    if not node.get("broadcast") or node.get("axis") is None:
        return values
    x, y = values
    after = len(shape_of(x)) - node.get("axis") % len(shape_of(x)) - len(shape_of(y))
    return x, Value(tf.reshape(first(y), [*shape_of(y), *[1] * after]))


def _broadcast(function: Callable, *values):
    rank = max(len(shape_of(value)) for value in values)
    if not any(isinstance(one, Value) and one.prefers_last and one.rank == rank for one in values):
        return Value(function(*map(first, values)))
    return Value(last=function(*(_last_of_rank(value, rank) for value in values)))


def _last_of_rank(value, rank: int):
    """A value with its channels at the end and axes of size one in front, up to a rank."""
    missing = rank - len(shape_of(value))
    if not missing:
        return last(value)
    if not shape_of(value):
        return first(value)
    full = tf.reshape(first(value), [*[1] * missing, *(-1 if s is None else s for s in shape_of(value))])
    return tf.transpose(full, _to_last(rank))


def _power(x, y):
    # TensorFlow's power by a constant has the gradient of its square or root only with this form.
    if isinstance(y, np.ndarray) and y.size == 1 and float(y.item()) in (2.0, 0.5):
        return tf.square(x) if y.item() == 2 else tf.sqrt(x)
    return tf.pow(x, tf.cast(y, x.dtype))


def _divide(x, y):
    x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
    if x.dtype.is_floating:
        return x / y
    # C rounds toward zero, Python down.
    return tf.cast(tf.truncatediv(x, y), x.dtype)


_UNARY: dict[str, Callable] = {
    "Abs": tf.abs, "Ceil": tf.math.ceil, "Cos": tf.cos, "Erf": tf.math.erf, "Exp": tf.exp, "Floor": tf.floor,
    "Identity": tf.identity, "Log": tf.math.log, "Neg": tf.negative, "Not": tf.logical_not,
    "Relu": tf.nn.relu, "Round": tf.round, "Sigmoid": tf.sigmoid, "Sign": tf.sign, "Sin": tf.sin,
    "Softplus": tf.math.softplus, "Softsign": tf.nn.softsign, "Sqrt": tf.sqrt, "Tanh": tf.tanh,
    "Reciprocal": lambda x: 1 / x, "Mish": lambda x: x * tf.tanh(tf.math.softplus(x)),
    "HardSwish": lambda x: x * tf.clip_by_value(x / 6 + 0.5, 0.0, 1.0),
    "Add": tf.add, "Sub": tf.subtract, "Mul": tf.multiply, "Div": _divide, "Pow": _power,
    "And": tf.logical_and, "Or": tf.logical_or, "Xor": tf.math.logical_xor, "Equal": tf.equal,
    "Greater": tf.greater, "GreaterOrEqual": tf.greater_equal, "Less": tf.less,
    "LessOrEqual": tf.less_equal, "Mod": tf.math.floormod,
    "Where": lambda condition, x, y: tf.where(condition, x, y),
}  # fmt: skip
OPERATORS |= {name: _elementwise(function) for name, function in _UNARY.items()}


@operator("Sum", "Max", "Min", "Mean")
def _several(node: Node, *values):
    pairwise = {"Max": tf.maximum, "Min": tf.minimum}.get(node.operator, tf.add)
    total = values[0]
    for value in values[1:]:
        total = _broadcast(pairwise, total, value)
    return _broadcast(lambda x: x / len(values), total) if node.operator == "Mean" else total


@operator("LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Swish")
def _activation(node: Node, x):
    default = {"LeakyRelu": 0.01, "HardSigmoid": 0.2, "Selu": 1.6732632423543772}.get(node.operator, 1.0)
    alpha = node.get("alpha", default)

    def elu(x):
        return tf.where(x > 0, x, alpha * (tf.exp(tf.minimum(x, 0.0)) - 1))

    function = {
        "LeakyRelu": lambda x: tf.where(x >= 0, x, alpha * x),
        "Elu": elu,
        "Selu": lambda x: node.get("gamma", 1.0507009873554805) * elu(x),
        "Celu": lambda x: tf.where(x > 0, x, alpha * (tf.exp(tf.minimum(x, 0.0) / alpha) - 1)),
        "ThresholdedRelu": lambda x: tf.where(x > alpha, x, 0.0),
        "HardSigmoid": lambda x: tf.clip_by_value(alpha * x + node.get("beta", 0.5), 0.0, 1.0),
        "Gelu": lambda x: tf.nn.gelu(x, approximate=node.get("approximate", "none") == "tanh"),
        "Swish": lambda x: x * tf.sigmoid(alpha * x),
    }[node.operator]
    return _broadcast(function, x)


@operator("PRelu")
def _parametric_relu(node: Node, x, slope):
    if node.opset < 7 and len(shape_of(slope)) == 1:  # one slope for each channel
        slope = Value(tf.reshape(first(slope), [-1, *[1] * (len(shape_of(x)) - 2)]))
    return _broadcast(lambda x, slope: tf.where(x >= 0, x, slope * x), x, slope)


@operator("Clip")
def _clip(node: Node, x, low=None, high=None):
    bounds = [_argument(node, name, value) for name, value in (("min", low), ("max", high))]
    if bounds[0] is not None:
        x = _broadcast(lambda x: tf.maximum(x, tf.cast(bounds[0], x.dtype)), x)
    return x if bounds[1] is None else _broadcast(lambda x: tf.minimum(x, tf.cast(bounds[1], x.dtype)), x)


@operator("Cast")
def _cast(node: Node, x):
    node.require(node.get("to") in DTYPES, f"casts to the element type {node.get('to')}")
    return _broadcast(lambda x: tf.cast(x, DTYPES[node.get("to")]), x)


@operator("Dropout")
def _dropout(node: Node, x, ratio=None, training=None):
    trains = training is not None and bool(np.any(_constant(node, training, "training_mode")))
    node.require(not trains, "is in training mode")
    return x, _broadcast(lambda x: tf.ones_like(x, tf.bool), x)


# Convolutions and pooling.


def _window(node: Node, spatial, kernel) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Strides, dilations and paddings of a window that moves over spatial axes of known sizes."""
    count = len(kernel)
    strides = list(node.get("strides") or [1] * count)
    dilations = list(node.get("dilations") or [1] * count)
    pads = list(node.get("pads") or [0] * 2 * count)
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID"):
        valid = auto == "VALID"
        return strides, dilations, [(0, 0) if valid else (pads[i], pads[i + count]) for i in range(count)]
    found = []
    for size, side, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + dilation * (side - 1) + 1 - size)
        found.append(
            (total // 2, total - total // 2) if auto == "SAME_UPPER" else (total - total // 2, total // 2)
        )
    return strides, dilations, found


def _padded(x, pads, value: float = 0.0):
    """`x`, channels last, with its spatial axes padded; negative numbers crop."""
    if any(low < 0 or high < 0 for low, high in pads):
        ends = [size + min(high, 0) for size, (_, high) in zip(x.shape[1:-1], pads, strict=True)]
        x = x[:, *(slice(max(-low, 0), end) for (low, _), end in zip(pads, ends, strict=True)), :]
    pads = [(max(low, 0), max(high, 0)) for low, high in pads]
    return tf.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value) if np.any(pads) else x


def _dilated(kernel, dilations):
    """A kernel `[*spatial, in, out]` with zeros in between: gradients on CPUs know no dilation."""
    for axis, dilation in enumerate(dilations):
        if dilation > 1:
            size = kernel.shape[axis]
            parts = tf.unstack(kernel, axis=axis)
            gap = [tf.zeros_like(parts[0])] * (dilation - 1)
            spread = [one for part in parts for one in (part, *gap)][: dilation * (size - 1) + 1]
            kernel = tf.stack(spread, axis=axis)
    return kernel


def kernel_last(weight):
    """From the kernel of a convolution in ONNX, `[out, in, *spatial]`, to TensorFlow's `[*spatial, in,
    out]`.
    """
    rank = len(weight.shape)
    return tf.transpose(weight, [*range(2, rank), 1, 0])


@operator("Conv")
def _convolution(node: Node, x, weight, bias=None):
    # A kernel that is a constant was brought into TensorFlow's order when the graph was read.
    kernel = first(weight) if node.get("kernel_last") else kernel_last(first(weight))
    images, groups, count = last(x), node.get("group", 1), len(kernel.shape) - 2
    strides, dilations, pads = _window(node, images.shape[1:-1], kernel.shape[:count])
    images, kernel = _padded(images, pads), _dilated(kernel, dilations)
    if max(kernel.shape[:count]) == 1 < max(strides):
        # TensorFlow 2.21 with oneDNN overwrites foreign memory in the gradient of such narrow kernels.
        images, strides = images[:, *(slice(None, None, step) for step in strides)], [1] * count
    inputs, outputs = int(kernel.shape[-2]) * groups, int(kernel.shape[-1])
    if groups > 1 and groups == inputs and count == 2 and len(set(strides)) == 1:
        sides = kernel.shape[:2]
        kernel = tf.reshape(kernel, [*sides, 1, groups, outputs // groups])[:, :, 0]
        found = tf.nn.depthwise_conv2d(images, kernel, [1, *strides, 1], "VALID")
    else:
        parts = zip(tf.split(images, groups, -1), tf.split(kernel, groups, -1), strict=True)
        found = tf.concat([tf.nn.convolution(a, b, strides, "VALID") for a, b in parts], -1)
    return Value(last=found if bias is None else found + first(bias))


@operator("ConvTranspose")
def _transposed_convolution(node: Node, x, weight, bias=None):
    images, weight, groups = last(x), first(weight), node.get("group", 1)
    count = len(images.shape) - 2
    strides, dilations, _ = _window(node, [1] * count, weight.shape[2:])
    kernel = _dilated(kernel_last(weight), dilations)  # [*spatial, out, in]
    full = [
        (n - 1) * s + k for n, s, k in zip(images.shape[1:-1], strides, kernel.shape[:count], strict=True)
    ]
    extra = list(node.get("output_padding") or [0] * count)
    wanted, auto = node.get("output_shape"), node.get("auto_pad", "NOTSET")
    if auto.startswith("SAME") and not wanted:
        wanted = [n * s for n, s in zip(images.shape[1:-1], strides, strict=True)]
    if wanted:
        totals = [f + e - w for f, e, w in zip(full, extra, wanted[-count:], strict=True)]
        pads = [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]
    else:
        given = list(node.get("pads") or [0] * 2 * count)
        pads = [(given[i], given[i + count]) for i in range(count)]
    batch = tf.shape(images)[0]
    pairs = zip(tf.split(images, groups, -1), tf.split(kernel, groups, -1), strict=True)
    found = tf.concat(
        [tf.nn.conv_transpose(a, b, [batch, *full, b.shape[-2]], strides, "VALID") for a, b in pairs], -1
    )
    found = tf.ensure_shape(found, [None, *full, found.shape[-1]])
    found = _padded(found, [(-low, e - high) for (low, high), e in zip(pads, extra, strict=True)])
    return Value(last=found if bias is None else found + first(bias))


@operator("MaxPool", "AveragePool")
def _pool(node: Node, x):
    node.require(len(node.outputs) == 1, "also returns the places of the maxima")
    images, kernel = last(x), list(node.get("kernel_shape"))
    spatial = images.shape[1:-1]
    strides, dilations, pads = _window(node, spatial, kernel)
    ceiling = []
    for n, k, s, d, (low, high) in zip(spatial, kernel, strides, dilations, pads, strict=True):
        rest = (n + low + high - d * (k - 1) - 1) % s
        # A window that would begin in the padding on the right does not count.
        more = s - rest if node.get("ceil_mode") and rest else 0
        begins = (n + low + high + more - d * (k - 1) - 1) // s * s
        ceiling.append((0, more if begins < n + low else 0))

    # TensorFlow has no windows with holes that move by steps, and none that leave pixels out.
    dense = max(dilations) > 1 or any(s > k for s, k in zip(strides, kernel, strict=True))
    chosen = (slice(None), *(slice(None, None, step if dense else 1) for step in strides))

    def pooled(images, how):
        steps = [1] * len(kernel) if dense else strides
        found = tf.nn.pool(images, kernel, how, padding="VALID", strides=steps, dilations=dilations)
        return found[chosen] if dense else found

    if node.operator == "MaxPool":
        lowest = images.dtype.min
        return Value(last=pooled(_padded(_padded(images, pads, lowest), ceiling, lowest), "MAX"))
    sums = pooled(_padded(_padded(images, pads), ceiling), "AVG")
    ones = tf.ones([1, *spatial, 1])
    counted = _padded(_padded(ones, pads, 1.0 if node.get("count_include_pad") else 0.0), ceiling)
    return Value(last=sums / pooled(counted, "AVG"))


@operator("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(node: Node, x):
    reduce = tf.reduce_mean if node.operator == "GlobalAveragePool" else tf.reduce_max
    return Value(last=reduce(last(x), list(range(1, len(shape_of(x)) - 1)), keepdims=True))


@operator("Resize", "Upsample")
def _resize(node: Node, x, *rest):
    inputs = dict(zip(("roi", "scales", "sizes") if len(rest) > 1 else ("scales",), rest, strict=False))
    images, shape = last(x), shape_of(x)
    given = {name: _argument(node, name, inputs.get(name)) or None for name in ("scales", "sizes")}
    axes = _axes(node.get("axes") or range(len(shape)), len(shape))
    scales = dict(zip(axes, given["scales"] or [], strict=False))
    sizes = dict(zip(axes, given["sizes"] or [], strict=False))
    node.require(len(shape) == 4, "resizes something that is no image")
    node.require(not node.get("antialias"), "has antialias=1")
    node.require(node.get("keep_aspect_ratio_policy", "stretch") == "stretch", "keeps the aspect ratio")
    for axis in (2, 3):
        old, new = shape[axis], sizes.get(axis) or math.floor(shape[axis] * scales.get(axis, 1.0))
        matrix = _resize_matrix(node, old, int(new), sizes.get(axis, 0) / old or scales.get(axis, 1.0))
        images = tf.tensordot(images, tf.constant(matrix, images.dtype), [[axis - 1], [1]])
        images = tf.transpose(images, [0, 3, 1, 2] if axis == 2 else [0, 1, 3, 2])
    return Value(last=images)


def _resize_matrix(node: Node, old: int, new: int, scale: float) -> np.ndarray:
    """The weights `[new, old]` by which pixels along one axis are resized."""
    mode = str(node.get("mode", "nearest")).replace("bilinear", "linear")
    default = "asymmetric" if node.operator == "Upsample" or node.opset < 11 else "half_pixel"
    rule = node.get("coordinate_transformation_mode", default)
    at = np.arange(new, dtype=np.float64)
    places = {
        "half_pixel": (at + 0.5) / scale - 0.5,
        "asymmetric": at / scale,
        "align_corners": at * (old - 1) / max(scale * old - 1, 1e-12),
        "pytorch_half_pixel": (at + 0.5) / scale - 0.5 if new > 1 else 0 * at,
        "half_pixel_symmetric": (at + 0.5 - new / 2) / scale + old / 2 - 0.5,
    }
    known = rule in places and mode in ("nearest", "linear", "cubic")
    node.require(known, f"has mode {mode}, coordinates {rule}")
    place = places[rule]
    if mode == "nearest":
        rounding = node.get("nearest_mode", "floor" if node.opset < 11 else "round_prefer_floor")
        chosen = {
            "round_prefer_floor": np.ceil(place - 0.5),
            "round_prefer_ceil": np.floor(place + 0.5),
            "floor": np.floor(place),
            "ceil": np.ceil(place),
        }[rounding]
        return np.eye(old)[np.clip(chosen, 0, old - 1).astype(int)]
    a = node.get("cubic_coeff_a", -0.75)
    matrix = np.zeros([new, old])
    for step in (-1, 0, 1, 2):
        there = np.floor(place) + step
        d = np.abs(place - there)
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weight = np.maximum(1 - d, 0) if mode == "linear" else np.where(d <= 1, near, np.where(d < 2, far, 0))
        if node.get("exclude_outside"):
            weight = np.where((there >= 0) & (there < old), weight, 0)
        matrix += weight[:, None] * np.eye(old)[np.clip(there, 0, old - 1).astype(int)]
    return matrix / matrix.sum(axis=1, keepdims=True)


# Normalization.


@operator("BatchNormalization")
def _batch_normalization(node: Node, x, scale, bias, mean, variance):
    node.require(not node.get("training_mode"), "is in training mode")
    node.require(len([name for name in node.outputs if name]) == 1, "is in training mode: it has statistics")
    epsilon, statistics = node.get("epsilon", 1e-5), [first(one) for one in (scale, bias, mean, variance)]
    if len(shape_of(x)) == 4 and last(x).dtype == tf.float32:
        # With an epsilon of its own, which the public form would raise to 1.001e-5.
        fused = tf.raw_ops.FusedBatchNormV3
        names = ("scale", "offset", "mean", "variance")
        settings = dict(zip(names, map(tf.convert_to_tensor, statistics), strict=True))
        return Value(last=fused(x=last(x), epsilon=epsilon, is_training=False, **settings).y)
    scale, bias, mean, variance = statistics
    if len(shape_of(x)) < 3:
        return Value(tf.nn.batch_normalization(first(x), mean, variance, bias, scale, epsilon))
    return Value(last=tf.nn.batch_normalization(last(x), mean, variance, bias, scale, epsilon))


@operator("InstanceNormalization")
def _instance_normalization(node: Node, x, scale, bias):
    images = last(x)
    mean, variance = tf.nn.moments(images, list(range(1, len(images.shape) - 1)), keepdims=True)
    arguments = mean, variance, first(bias), first(scale), node.get("epsilon", 1e-5)
    return Value(last=tf.nn.batch_normalization(images, *arguments))


@operator("LayerNormalization")
def _layer_normalization(node: Node, x, scale, bias=None):
    x, epsilon = first(x), node.get("epsilon", 1e-5)
    axes = list(range(node.get("axis", -1) % len(x.shape), len(x.shape)))
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    offset = None if bias is None else first(bias)
    found = tf.nn.batch_normalization(x, mean, variance, offset, first(scale), epsilon)
    return Value(found), Value(mean), Value(tf.math.rsqrt(variance + epsilon))


@operator("GroupNormalization")
def _group_normalization(node: Node, x, scale, bias):
    images, groups = last(x), node.get("num_groups")
    *sides, channels = images.shape[1:]
    split = tf.reshape(images, [-1, math.prod(sides), groups, channels // groups])
    mean, variance = tf.nn.moments(split, [1, 3], keepdims=True)
    split = (split - mean) * tf.math.rsqrt(variance + node.get("epsilon", 1e-5))
    scale, bias = (first(one) for one in (scale, bias))
    if node.opset < 21:  # one number for each group
        scale, bias = (tf.repeat(one, channels // groups) for one in (scale, bias))
    return Value(last=tf.reshape(split, [-1, *sides, channels]) * scale + bias)


@operator("LRN")
def _local_response(node: Node, x):
    images, size = last(x), node.get("size")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = tf.pad(tf.square(images), [(0, 0)] * (len(images.shape) - 1) + [(before, after)])
    total = tf.add_n([squares[..., i : i + images.shape[-1]] for i in range(size)])
    power = node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total
    return Value(last=images / tf.pow(power, node.get("beta", 0.75)))


@operator("Softmax", "LogSoftmax")
def _softmax(node: Node, x):
    function = tf.nn.softmax if node.operator == "Softmax" else tf.nn.log_softmax
    x, axis = first(x), node.get("axis", -1 if node.opset >= 13 else 1)
    if node.opset >= 13:
        return Value(function(x, axis))
    # Before opset 13, over all axes from this one on.
    sizes = [tf.shape(x)[i] if size is None else size for i, size in enumerate(x.shape)]
    return Value(tf.reshape(function(tf.reshape(x, [*sizes[: axis % len(sizes)], -1])), sizes))


# Products and sums.


@operator("MatMul")
def _product(node: Node, x, y):
    x, y = (tf.convert_to_tensor(first(one)) for one in (x, y))
    if len(x.shape) == 1 or len(y.shape) == 1:
        return Value(tf.tensordot(x, y, [[-1], [max(len(y.shape) - 2, 0)]]))
    if len(y.shape) == 2 and len(x.shape) > 2:
        return Value(tf.tensordot(x, y, 1))
    return Value(tf.matmul(x, y))


@operator("Gemm")
def _general_product(node: Node, x, y, offset=None):
    product = tf.matmul(first(x), first(y), bool(node.get("transA")), bool(node.get("transB")))
    product = product if node.get("alpha", 1.0) == 1 else node.get("alpha") * product
    if offset is None:
        return Value(product)
    return Value(
        product + (first(offset) if node.get("beta", 1.0) == 1 else node.get("beta") * first(offset))
    )


_REDUCTIONS: dict[str, Callable] = {
    "ReduceMean": tf.reduce_mean, "ReduceMax": tf.reduce_max, "ReduceMin": tf.reduce_min,
    "ReduceSum": tf.reduce_sum, "ReduceProd": tf.reduce_prod, "ReduceLogSumExp": tf.reduce_logsumexp,
    "ReduceL2": lambda x, *rest: tf.sqrt(tf.reduce_sum(tf.square(x), *rest)),
    "ReduceL1": lambda x, *rest: tf.reduce_sum(tf.abs(x), *rest),
    "ReduceSumSquare": lambda x, *rest: tf.reduce_sum(tf.square(x), *rest),
}  # fmt: skip


@operator(*_REDUCTIONS)
def _reduction(node: Node, x, axes=None):
    axes, rank, keep = _argument(node, "axes", axes), len(shape_of(x)), bool(node.get("keepdims", 1))
    if not axes and node.get("noop_with_empty_axes"):
        square = {"ReduceSumSquare": tf.square, "ReduceL1": tf.abs, "ReduceL2": tf.abs}
        return Value(square.get(node.operator, tf.identity)(first(x)))
    reduce, axes = _REDUCTIONS[node.operator], _axes(axes or range(rank), rank)
    if isinstance(x, Value) and x.prefers_last and keep and rank > 2:
        return Value(last=reduce(x.last, [_to_last(rank).index(axis) for axis in axes], keep))
    if isinstance(x, Value) and x.prefers_last and sorted(axes) == list(range(2, rank)):
        return Value(reduce(x.last, list(range(1, rank - 1)), False))
    return Value(reduce(first(x), axes, keep))


@operator("ArgMax")
def _argmax(node: Node, x):
    node.require(not node.get("select_last_index"), "selects the last index")
    axis = node.get("axis", 0)
    found = tf.argmax(first(x), axis)
    return Value(tf.expand_dims(found, axis) if node.get("keepdims", 1) else found)


# Shapes. What the batch does not change was computed when the graph was read.


@operator("Reshape")
def _reshape(node: Node, x, shape=None):
    return Value(tf.reshape(first(x), reshaped(node, shape_of(x), _argument(node, "shape", shape))))


def reshaped(node: Node, old: list, new: list) -> list:
    """The sizes that `Reshape` asks for, where 0 means the size that there is."""
    if node.get("allowzero"):
        return new
    return [old[i] if isinstance(size, int) and size == 0 else size for i, size in enumerate(new)]


@operator("Flatten")
def _flatten(node: Node, x):
    axis, shape = node.get("axis", 1), shape_of(x)
    axis = axis + len(shape) if axis < 0 else axis
    front = [math.prod(shape[:axis])] if None not in shape[:axis] else [-1]
    return Value(tf.reshape(first(x), [*front, math.prod(shape[axis:]) if None not in shape[axis:] else -1]))


@operator("Expand")
def _expand(node: Node, x, shape):
    x, sizes = tf.convert_to_tensor(first(x)), _constant(node, shape, "shape")
    _bounded(node, sizes)
    if all(isinstance(size, int) for size in sizes) and x.shape.is_fully_defined():
        sizes = tf.broadcast_static_shape(x.shape, tf.TensorShape(sizes))
    return Value(tf.broadcast_to(x, sizes))


@operator("ConstantOfShape")
def _constant_of_shape(node: Node, shape):
    sizes, value = _constant(node, shape, "shape"), node.get("value", np.float32(0.0))
    value = np.ravel(np.asarray(value, node.get("value_dtype")))[0]
    _bounded(node, sizes)
    return Value(tf.fill(sizes, tf.constant(value)) if sizes else tf.constant(value))


@operator("Range")
def _range(node: Node, *bounds):
    if any(tf.is_tensor(bound) for bound in bounds):  # up to the number of images
        return Value(tf.range(*(tf.cast(bound, tf.int64) for bound in bounds)))
    start, limit, delta = (_constant(node, bound, "bounds") for bound in bounds)
    _bounded(node, [int(abs(limit - start) / max(abs(delta), 1e-12)) + 1])
    return Value(tf.constant(np.arange(start, limit, delta).astype(np.asarray(bounds[0]).dtype)))


@operator("Tile")
def _tile(node: Node, x, repeats, axis=None):
    if node.opset < 6 or axis is not None:
        wanted = [1] * len(shape_of(x))
        wanted[int(np.ravel(axis)[0])] = int(np.ravel(repeats)[0])
        repeats = wanted
    repeats = _constant(node, repeats, "repeats")
    sizes = [s * r for s, r in zip(shape_of(x), repeats, strict=True) if None not in (s, r)]
    _bounded(node, [size for size in sizes if isinstance(size, int)])
    return Value(tf.tile(first(x), repeats))


@operator("Transpose")
def _transpose(node: Node, x):
    rank = len(shape_of(x))
    order = list(node.get("perm") or range(rank)[::-1])
    if rank > 2 and isinstance(x, Value) and x.prefers_last:
        # The axes of ONNX are these of what is there.
        there = [0, rank - 1, *range(1, rank - 1)]
        order, x = [there[axis] for axis in order], x.last
    else:
        x = first(x)
    if rank > 2 and order == [0, rank - 1, *range(1, rank - 1)]:
        return Value(last=x)
    return Value(x if order == list(range(rank)) else tf.transpose(x, order))


@operator("Concat")
def _concat(node: Node, *values):
    rank = len(shape_of(values[0]))
    axis = node.get("axis", 1) % rank
    tensors = [one for one in values if isinstance(one, Value)]
    if rank > 2 and all(one.prefers_last for one in tensors):
        return Value(last=tf.concat([last(one) for one in values], _to_last(rank).index(axis)))
    return Value(tf.concat([tf.convert_to_tensor(first(one)) for one in values], axis))


@operator("Split")
def _split(node: Node, x, sizes=None):
    rank = len(shape_of(x))
    axis, sizes = node.get("axis", 0) % rank, _argument(node, "split", sizes)
    if sizes is None:
        total, count = shape_of(x)[axis], len(node.outputs)
        node.require(total is not None, "divides the batch")
        size = -(-total // count)
        sizes = [size] * (count - 1) + [total - size * (count - 1)]
    if rank > 2 and isinstance(x, Value) and x.prefers_last:
        return tuple(Value(last=one) for one in tf.split(x.last, sizes, _to_last(rank).index(axis)))
    return tuple(Value(one) for one in tf.split(first(x), sizes, axis))


@operator("Slice")
def _slice(node: Node, x, *rest):
    given = dict(zip(("starts", "ends", "axes", "steps"), rest, strict=False))
    starts, ends, axes, steps = (
        _argument(node, name, given.get(name)) for name in ("starts", "ends", "axes", "steps")
    )
    rank, steps = len(shape_of(x)), steps or [1] * len(starts)
    parts = [slice(None)] * rank
    for start, end, axis, step in zip(
        starts, ends, _axes(axes or range(len(starts)), rank), steps, strict=True
    ):
        far_end = isinstance(end, int) and (end >= _FAR if step > 0 else end <= -_FAR)
        far_start = isinstance(start, int) and ((start >= _FAR and step < 0) or start <= -_FAR)
        parts[axis] = slice(None if far_start else start, None if far_end else end, step)
    if rank > 2 and isinstance(x, Value) and x.prefers_last:
        return Value(last=x.last[tuple(parts[axis] for axis in _to_last(rank))])
    return Value(tf.convert_to_tensor(first(x))[tuple(parts)])


@operator("Squeeze")
def _squeeze(node: Node, x, axes=None):
    x, axes = first(x), _argument(node, "axes", axes)
    axes = [i for i, size in enumerate(x.shape) if size == 1] if axes is None else _axes(axes, len(x.shape))
    return Value(tf.squeeze(x, axes) if axes else tf.convert_to_tensor(x))


@operator("Unsqueeze")
def _unsqueeze(node: Node, x, axes=None):
    x, axes = first(x), _argument(node, "axes", axes)
    for axis in sorted(_axes(axes, len(np.ravel(axes)) + len(np.shape(x)))):
        x = tf.expand_dims(x, axis)
    return Value(x)


@operator("Gather")
def _gather(node: Node, x, indices):
    axis = node.get("axis", 0) % len(shape_of(x))
    size = shape_of(x)[axis]
    if isinstance(indices, Value):
        return Value(tf.gather(first(x), first(indices), axis=axis))
    indices = np.asarray(indices)
    node.require(size is not None or not (indices < 0).any(), "counts images of a batch from its end")
    return Value(tf.gather(first(x), np.where(indices < 0, indices + (size or 0), indices), axis=axis))


@operator("GatherND")
def _gather_places(node: Node, x, indices):
    node.require(isinstance(indices, Value) or np.min(indices) >= 0, "counts from the end of an axis")
    return Value(tf.gather_nd(first(x), first(indices), node.get("batch_dims", 0)))


@operator("Pad")
def _pad(node: Node, x, pads=None, value=None, axes=None):
    name = "pads" if node.get("pads") is not None or pads is not None else "paddings"
    pads, rank = _argument(node, name, pads), len(shape_of(x))
    value = 0 if node.get("value") is None and value is None else np.ravel(_argument(node, "value", value))[0]
    axes = _axes(range(rank) if axes is None else _constant(node, axes, "axes"), rank)
    full = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        full[axis] = pads[position], pads[position + len(axes)]
    mode, x = node.get("mode", "constant"), first(x)
    node.require(mode in ("constant", "reflect", "edge"), f"pads with mode {mode}")
    _bounded(node, [(n or 1) + max(0, a) + max(0, b) for n, (a, b) in zip(x.shape, full, strict=True)])
    cropped = [slice(max(-a, 0), None if b >= 0 else b) for a, b in full]
    x = tf.convert_to_tensor(x)[tuple(cropped)]
    full = [(max(a, 0), max(b, 0)) for a, b in full]
    if mode != "edge":
        settings = {"constant_values": tf.cast(value, x.dtype)} if mode == "constant" else {}
        return Value(tf.pad(x, full, mode.upper(), **settings))
    for axis, (low, high) in enumerate(full):
        if low or high:
            places = np.clip(np.arange(-low, x.shape[axis] + high), 0, x.shape[axis] - 1)
            x = tf.gather(x, places, axis=axis)
    return Value(x)


@operator("DepthToSpace")
def _depth_to_space(node: Node, x):
    images, size = last(x), node.get("blocksize")
    if node.get("mode", "DCR") == "CRD":  # the channels come before the places in a block
        order = np.arange(images.shape[-1]).reshape(-1, size * size).T
        images = tf.gather(images, np.ravel(order), axis=-1)
    return Value(last=tf.nn.depth_to_space(images, size))


@operator("SpaceToDepth")
def _space_to_depth(node: Node, x):
    return Value(last=tf.nn.space_to_depth(last(x), node.get("blocksize")))


def compute(node: Node, *inputs) -> tuple:
    """The results of a node; `InputError`, with its name, if it asks for what is not supported."""
    check(
        node.operator in OPERATORS,
        f"The operation {node.operator} (node '{node.name}') is not supported. Supported are "
        f"{', '.join(sorted(OPERATORS))}.",
    )
    try:
        found = OPERATORS[node.operator](node, *inputs)
    except InputError:
        raise
    except Exception as error:
        raise node.refuse(f"cannot be computed: {type(error).__name__}: {str(error)[:300]}") from error
    return found if isinstance(found, tuple) else (found,)
