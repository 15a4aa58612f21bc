"""`to_hypersphere`: a hypersphere head for any Keras classifier."""

import keras

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.errors import InputError

_REMEDY = (
    "`to_hypersphere` needs a functional or Sequential model that ends in a `Dense` layer, with or without "
    "a softmax. For others, build the model with a `CosineDense` as its last layer."
)


def to_hypersphere(
    model: keras.Model,
    scale: float = 15.0,
    angular: bool = False,
    weight_norm: str = "differentiable",
) -> keras.Model:
    """Replaces the last `Dense` of a classifier, and a softmax after it, by a `CosineDense`.

    The features stay the same layers, shared with `model`: training one trains the other. The class
    weights are copied, so each class keeps its direction; bias and lengths are dropped. Without a bias the
    predictions change, and fine-tuning is expected.

    Example:

    >>> net = to_hypersphere(keras.applications.ResNet50(weights="imagenet"), scale=10.0)

    Args:
        model: A functional or Sequential classifier with one input and one output.
        scale: The s of the head.
        angular: Angles instead of cosines (m-HE).
        weight_norm: See `CosineDense`.
    """
    dense, features = _last_dense(model)
    head = CosineDense(dense.units, scale=scale, angular=angular, weight_norm=weight_norm, name="head")
    logits = head(features)
    # Not `kernel.assign` alone: with weight_norm="project" the stored kernel has unit columns.
    kernel = keras.ops.cast(dense.kernel, head.kernel.dtype)
    head.kernel.assign(head.kernel.constraint(kernel) if head.kernel.constraint else kernel)
    return keras.Model(model.inputs[0], logits, name=f"{model.name}_hypersphere")


def _last_dense(model):
    """The classifier's `Dense` layer and the symbolic features it is applied to."""
    if not isinstance(model, keras.Sequential) and not hasattr(model, "operations"):
        raise InputError(f"Received a model of class '{type(model).__name__}'. {_REMEDY}")
    if not model.built:
        raise InputError(f"Model '{model.name}' has no input shape yet. Call it on a batch of images first.")
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise InputError(
            f"Model '{model.name}' has {len(model.inputs)} inputs and {len(model.outputs)} outputs. {_REMEDY}"
        )
    layer, inputs = _producer(model.outputs[0])
    if _is_softmax(layer):
        layer, inputs = _producer(inputs)
    if not isinstance(layer, keras.layers.Dense):
        raise InputError(f"Model '{model.name}' ends in '{layer.name}', a {type(layer).__name__}. {_REMEDY}")
    if layer.activation not in (keras.activations.linear, keras.activations.softmax):
        raise InputError(f"The last `Dense` has activation '{layer.activation.__name__}'. {_REMEDY}")
    if len(inputs.shape) != 2:
        raise InputError(f"The last `Dense` is applied to features of shape {inputs.shape}. {_REMEDY}")
    return layer, inputs


def _producer(tensor):
    """The layer that made a symbolic tensor, and the first of its inputs."""
    history = tensor._keras_history
    inputs = history.operation._inbound_nodes[history.node_index].input_tensors
    return history.operation, inputs[0] if inputs else None


def _is_softmax(layer) -> bool:
    activation = getattr(layer, "activation", None) if isinstance(layer, keras.layers.Activation) else None
    return isinstance(layer, keras.layers.Softmax) or activation is keras.activations.softmax
