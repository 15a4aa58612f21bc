"""`to_hypersphere`: a hypersphere head for any Keras classifier."""

import keras

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.features import find_head
from athe_tf.utils.errors import InputError

_REMEDY = (
    "`to_hypersphere` needs a functional or Sequential model that ends in a `Dense` layer, with or without "
    "a softmax. For others, build the model with a `CosineDense` as its last layer."
)


def to_hypersphere(
    model: keras.Model, scale: float = 15.0, angular: bool = False, weight_norm: str = "differentiable"
) -> keras.Model:
    """Replaces the last `Dense` of a classifier, and a softmax after it, by a `CosineDense`.

    All other layers are shared with `model`: training one model trains the other. The class weights are
    copied, so each class keeps its direction; the bias and the norms of the weights are dropped. This changes
    the predictions, so fine-tune the model afterwards.

    Example:

    >>> linear = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> net = athe_tf.models.to_hypersphere(linear, scale=10.0)
    >>> net.layers[-1].scale
    10.0

    Args:
        model: A functional or Sequential classifier with one input and one output, such as those of
            `keras.applications`. The `Dense` may be inside a nested model of that kind.
        scale: The s of the head. Defaults to 15.
        angular: Use angles instead of cosines (m-HE). Defaults to `False`.
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
    layer, features = find_head(model, before_softmax=True)
    if layer is None:
        raise InputError(f"Model '{model.name}' ends in a model whose layers are not known. {_REMEDY}")
    if not isinstance(layer, keras.layers.Dense):
        raise InputError(f"Model '{model.name}' ends in '{layer.name}', a {type(layer).__name__}. {_REMEDY}")
    if layer.activation not in (keras.activations.linear, keras.activations.softmax):
        raise InputError(f"The last `Dense` has activation '{layer.activation.__name__}'. {_REMEDY}")
    if features is None:
        raise InputError(f"The last `Dense` is applied to features of shape {layer.input.shape}. {_REMEDY}")
    return layer, features.outputs[0]
