"""`to_hypersphere`: a hypersphere head for any Keras classifier, and `suggest_scale`: a scale for it."""

from typing import Any

import keras
import numpy as np

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.features import is_identity, is_softmax_layer, known_graph
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.keras_compat import producer

_REMEDY = (
    "`to_hypersphere` needs a functional or Sequential model whose logits come from a `Dense` layer, or from "
    "a 1x1 convolution of one pixel; name that layer if others follow it: layer='NAME'. For others, put "
    "the head on the features: keras.Model(images, athe_tf.CosineDense(num_classes)(features))."
)
# What only changes the shape or the meaning of logits.
_AFTER_LOGITS = (keras.layers.Flatten, keras.layers.Reshape)


def to_hypersphere(
    model: keras.Model,
    scale: float | str = 15.0,
    angular: bool = False,
    weight_norm: str = "differentiable",
    *,
    layer: str | keras.layers.Layer | None = None,
) -> keras.Model:
    """Replaces the layer that computes the logits, and what follows it, by a `CosineDense`.

    All other layers are shared with `model`: training one model trains the other. The class weights are
    copied, so each class keeps its direction; the bias and the norms of the weights are dropped. This changes
    the predictions, so fine-tune the model afterward.

    Example:

    >>> linear = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> net = athe_tf.models.to_hypersphere(linear, scale=10.0)
    >>> net.layers[-1].scale
    10.0

    Args:
        model: A functional or Sequential classifier with one input and one output, such as those of
            `keras.applications`. The layer may be inside a nested model of that kind.
        scale: The s of the head, or `"adacos"`. Defaults to 15.
        angular: Use angles instead of cosines (m-HE). Defaults to `False`.
        weight_norm: See `CosineDense`.
        layer: The layer that computes the logits, or its name: a `Dense`, or a 1x1 `Conv2D` of one pixel.
            Defaults to the last layer, not counting a softmax and changes of shape.
    """
    classifier, features = _classifier(model, layer)
    units = classifier.units if isinstance(classifier, keras.layers.Dense) else classifier.filters
    head = CosineDense(units, scale=scale, angular=angular, weight_norm=weight_norm, name="head")
    logits = head(features if len(features.shape) == 2 else keras.layers.Flatten()(features))
    # Not `kernel.assign` alone: with weight_norm="project" the stored kernel has unit columns.
    kernel = keras.ops.cast(keras.ops.reshape(classifier.kernel, (-1, units)), head.kernel.dtype)
    head.kernel.assign(head.kernel.constraint(kernel) if head.kernel.constraint else kernel)
    return keras.Model(model.inputs[0], logits, name=f"{model.name}_hypersphere")


def _classifier(model: keras.Model, wanted) -> tuple[Any, Any]:
    """The layer that computes the logits, and the symbolic features it is applied to."""
    if not isinstance(model, keras.Sequential) and not hasattr(model, "operations"):
        raise InputError(f"Received a model of class '{type(model).__name__}'. {_REMEDY}")
    if not model.built:
        raise InputError(f"Model '{model.name}' has no input shape yet. Call it on a batch of images first.")
    if not known_graph(model):
        raise InputError(
            f"Model '{model.name}' has {len(model.inputs)} inputs and {len(model.outputs)} outputs. {_REMEDY}"
        )
    layer, features = _walk_back(model, wanted)
    if isinstance(layer, keras.Model):
        inner, inside = _classifier(layer, wanted)
        return inner, keras.Model(layer.inputs[0], inside)(features)
    pointwise = isinstance(layer, keras.layers.Conv2D) and layer.kernel_size == (1, 1) and layer.groups == 1
    if not (pointwise or isinstance(layer, keras.layers.Dense)):
        raise InputError(f"Model '{model.name}' ends in '{layer.name}', a {type(layer).__name__}. {_REMEDY}")
    if layer.activation not in (keras.activations.linear, keras.activations.softmax):
        raise InputError(f"The layer '{layer.name}' has activation '{layer.activation.__name__}'. {_REMEDY}")
    shape = features.shape
    if any(size != 1 for size in shape[1:-1]) or (not pointwise and len(shape) != 2):
        raise InputError(f"The layer '{layer.name}' is applied to features of shape {shape}. {_REMEDY}")
    return layer, features


def _walk_back(model: keras.Model, wanted) -> tuple[Any, Any]:
    """From the output back to the classifier, or to the nested model that contains it."""
    layer, features = producer(model.outputs[0])
    if wanted is None:
        while is_identity(layer) or is_softmax_layer(layer) or isinstance(layer, _AFTER_LOGITS):
            layer, features = producer(features)
        return layer, features
    while wanted not in (layer, layer.name) and not isinstance(layer, keras.Model):
        if features is None:
            name = wanted if isinstance(wanted, str) else getattr(wanted, "name", wanted)
            raise InputError(
                f"No layer '{name}' leads to the output of '{model.name}'. Expected one of its last layers. "
                f"{_REMEDY}"
            )
        layer, features = producer(features)
    return layer, features


def suggest_scale(model: keras.Model, images, batch_size: int = 128) -> float:
    """The mean Euclidean norm of a model's logits, as a first value for the scale s of a hypersphere head.

    The authors of hypersphere embedding chose the range of s by this norm in standard training, which they
    found to be around 10 (rebuttal). Train with values around it and compare robust accuracies.

    Example:

    >>> linear = athe_tf.models.build("small_cnn", 10, input_shape=(8, 8, 1))
    >>> scale = athe_tf.models.suggest_scale(linear, x)

    Args:
        model: A classifier with a linear head, after standard training.
        images: Clean images in [0, 1].
        batch_size: Images per forward pass. Defaults to 128.
    """
    logits = np.asarray(model.predict(np.asarray(images), batch_size=batch_size, verbose=0), np.float64)
    check(
        logits.ndim == 2 and len(logits) > 0,
        "Expected a classifier with one vector of logits per image, and at least one image. "
        f"Received: logits of shape {logits.shape}.",
    )
    return float(np.linalg.norm(logits, axis=1).mean())
