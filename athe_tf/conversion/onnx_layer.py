"""`OnnxLayer`: the operations of an ONNX file as one Keras layer, with its weights; a config and no code."""

import dataclasses
import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from athe_tf.conversion.onnx_file import OnnxGraph
from athe_tf.conversion.onnx_lowering import LoweredGraph, check_operators
from athe_tf.conversion.onnx_operators import Node, Value, compute, entered, first

# Operators whose constants are settings, and part of the config; so are single numbers.
_WITH_SETTINGS = ("Clip", "Pad", "Resize", "Upsample")
# The inputs of batch normalization that its training would measure.
_STATISTICS = (3, 4)


@keras.saving.register_keras_serializable(package="athe_tf")
class OnnxLayer(keras.layers.Layer):
    """Computes the operations of an ONNX graph on images `[N, H, W, C]`, with gradients.

    Weights can be trained; statistics of batch normalization stay as they are, in training mode too.

    Args:
        nodes: The operations: lists of operator, inputs, outputs, attributes, opset and name.
        constants: Small arrays and integers, as lists of dtype, shape and values.
        sizes: Shapes with a batch in them, as `LoweredGraph` has them.
        weights_like: The names and shapes of the weights, and whether they are trained.
        images: The name of the input.
        channels_first: Whether the graph takes `[N, C, H, W]`.
        output: The name of the output.
        width: The number of features or logits of an image.
        image_sizes: The shape of the input; `None` for the batch.
        image_dtype: Its type. Defaults to float32.
        one_by_one: Whether the graph computes one image at a time. Defaults to `False`.
    """

    def __init__(
        self,
        nodes,
        constants,
        sizes,
        weights_like,
        images,
        channels_first,
        output,
        width,
        image_sizes,
        image_dtype="float32",
        one_by_one=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.image_sizes, self.image_dtype, self.one_by_one = image_sizes, image_dtype, one_by_one
        self.nodes, self.constants, self.sizes = nodes, constants, sizes
        self.weights_like, self.images, self.channels_first = weights_like, images, channels_first
        self.output_name, self.width = output, width
        self.autocast = False
        self._nodes = [
            Node(operator, tuple(inputs), tuple(outputs), attributes, opset, name)
            for operator, inputs, outputs, attributes, opset, name in nodes
        ]
        check_operators(self._nodes)
        self._constants = {
            name: np.asarray(values, dtype).reshape(shape)
            for name, (dtype, shape, values) in constants.items()
        }

    def build(self, input_shape):
        self._weights = {
            name: self.add_weight(
                name=f"weight_{index}", shape=shape, dtype=dtype, trainable=trainable, initializer="zeros"
            )
            for index, (name, shape, dtype, trainable) in enumerate(self.weights_like)
        }

    def call(self, images):
        found = self._mapped(images) if self.one_by_one else self._computed(images)
        return tf.reshape(tf.cast(found, tf.float32), [-1, self.width])

    @functools.cached_property
    def _mapped(self):
        def mapped(images):
            # The gradient of a change of shape is a tensor, and not slices with their places.
            images = tf.reshape(images, [-1, *images.shape[1:]])
            return tf.vectorized_map(lambda image: self._computed(image[tf.newaxis]), images)

        return tf.function(mapped, autograph=False, reduce_retracing=True)

    def _computed(self, images):
        batch = tf.shape(images)[0]
        known: dict[str, Any] = dict(self._constants)
        known |= {name: Value(tf.convert_to_tensor(weight)) for name, weight in self._weights.items()}
        for name, sizes in self.sizes.items():
            several = isinstance(sizes, (list, tuple))
            known[name] = [-n * batch if n < 0 else n for n in sizes] if several else -sizes * batch
        known[self.images] = entered(images, self.channels_first, self.image_sizes, self.image_dtype)
        for node in self._nodes:
            results = compute(node, *(known[name] if name else None for name in node.inputs))
            known.update(zip(node.outputs, results, strict=False))
        return first(known[self.output_name])

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.width)

    def get_config(self):
        names = ["nodes", "constants", "sizes", "weights_like", "images", "channels_first", "width"]
        names += ["image_sizes", "image_dtype", "one_by_one"]
        return (
            super().get_config()
            | {name: getattr(self, name) for name in names}
            | {"output": self.output_name}
        )


def layer_of(lowered: LoweredGraph, graph: OnnxGraph, width: int, one_by_one: bool) -> OnnxLayer:
    """The layer of a graph, built, with its weights.

    Args:
        lowered: The operations that it computes.
        graph: The graph in the file, for its input.
        width: The number of outputs for an image.
        one_by_one: Whether they are computed for one image at a time.
    """
    fixed = {
        node.inputs[place]
        for node in lowered.nodes
        if node.operator == "BatchNormalization"
        for place in _STATISTICS
    }
    settings = {name for node in lowered.nodes if node.operator in _WITH_SETTINGS for name in node.inputs}
    arrays = {
        name: array
        for name, array in lowered.constants.items()
        if array.dtype.kind == "f" and array.size > 1 and name not in settings
    }
    constants = {
        name: [array.dtype.name, list(array.shape), np.ravel(array).tolist()]
        for name, array in lowered.constants.items()
        if name not in arrays
    }
    like = [[name, list(array.shape), array.dtype.name, name not in fixed] for name, array in arrays.items()]
    nodes = [list(dataclasses.astuple(node)) for node in lowered.nodes]
    layout = graph.layout
    ends = graph.images, layout.channels_first, lowered.output, width, layout.sizes, graph.dtype, one_by_one
    layer = OnnxLayer(nodes, constants, lowered.sizes, like, *ends, name="onnx")
    layer.build(None)
    for name, array in arrays.items():
        layer._weights[name].assign(array)
    return layer
