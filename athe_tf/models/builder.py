"""`build`: from a name to a Keras classifier."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.blocks import Blocks
from athe_tf.models.features import check_classifier
from athe_tf.models.folding import mark_built
from athe_tf.models.names import ACTIVATIONS, EIGHTEEN, FAMILIES, check_head, parse_name
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.registry import import_object, is_import_path, unknown_name

Statistics = float | Sequence[float]

#: The name of the layer that normalizes the input.
NORMALIZATION = "normalization"


def build(
    name: str,
    num_classes: int,
    *,
    head: str = "linear",
    input_shape: tuple[int, int, int] = (32, 32, 3),
    scale: float = 15.0,
    weight_norm: str = "differentiable",
    mean: Statistics | None = None,
    std: Statistics | None = None,
    activation: str = "relu",
    dropout: float = 0.0,
    bn_momentum: float = 0.9,
    seed: int = 0,
) -> keras.Model:
    """Builds a functional Keras classifier that maps images in [0, 1] to logits.

    Its last layer is called "head", and the input of that layer is the penultimate features. Padding and
    initialization of convolutions are PyTorch's, so that published recipes carry over.

    Example:

    >>> net = athe_tf.models.build(
    ...     "wrn-10-1", 10, head="he", mean=(0.4914, 0.4822, 0.4465), std=(0.2471, 0.2435, 0.2616))
    >>> net.input_shape, net.output_shape
    ((None, 32, 32, 3), (None, 10))

    Args:
        name: Such as "wrn-34-10"; see `athe_tf.models`. Or `module:function`, a function of your own that is
            called as `function(num_classes=..., input_shape=...)` and returns a `keras.Model` that maps
            images in [0, 1] to logits. Head, normalization and initial weights are then up to the function:
            `head`, `activation` and `dropout` must keep their defaults, the other arguments are not used.
        num_classes: Number of logits.
        head: "linear" (default), "fn", "wn", "he" or "mhe". All but the first are a `CosineDense`.
        input_shape: Height, width and channels. Defaults to `(32, 32, 3)`.
        scale: The s of a hypersphere head; a linear head has none. Defaults to 15.
        weight_norm: How a hypersphere head normalizes its weights; see `CosineDense`.
        mean: Mean of the pixels in [0, 1], a number or one for each channel, which the model subtracts from
            its input. Defaults to `None`: no normalization.
        std: Standard deviation of the pixels, by which the model divides. Required if `mean` is given.
        activation: "relu" (default), "softplus", "silu" or "leaky_relu".
        dropout: Dropout rate, inside the blocks of a wide ResNet and before the head of other models; ResNets
            have none. Defaults to 0.
        bn_momentum: The share of the old moving statistics that batch normalization keeps. Defaults to 0.9.
        seed: Seed of the initial weights. The same arguments give the same weights. Defaults to 0.
    """
    family, sizes = parse_name(name)
    check_head(head)
    if activation not in ACTIVATIONS:
        raise unknown_name("activation", activation, ACTIVATIONS)
    check(num_classes >= 2, f"A classifier needs at least 2 classes. Received: num_classes={num_classes}.")
    check(0 <= dropout < 1, f"`dropout` must lie in [0, 1). Received: dropout={dropout}.")
    if dropout and family in ("bottleneck", *EIGHTEEN):
        raise InputError(f"Model '{name}' has no dropout. Received: dropout={dropout}. Use dropout=0.")
    check(
        len(input_shape) == 3,
        f"`input_shape` must be (height, width, channels). Received: input_shape={tuple(input_shape)}.",
    )
    if is_import_path(family):
        check(
            head == "linear" and activation == "relu" and not dropout,
            f"The function '{name}' builds its own head, activations and dropout. Received: head='{head}', "
            f"activation='{activation}', dropout={dropout}. Leave them at their defaults.",
        )
        return _own_model(name, num_classes, tuple(input_shape))

    blocks = Blocks(seed, activation, dropout)
    blocks.bn_momentum = bn_momentum
    images = keras.Input(tuple(input_shape), name="image", dtype=_whole_precision())
    features = FAMILIES.get(family)(_normalized(images, mean, std), blocks, **sizes)
    logits = _head(features, blocks, num_classes, head, scale, weight_norm)
    return mark_built(keras.Model(images, logits, name=name.replace("-", "_")))


def _own_model(name: str, num_classes: int, input_shape: tuple[int, ...]) -> keras.Model:
    """The model of a function outside this library."""
    model = call_builder(import_object(name, "model"), num_classes, input_shape)
    expected = f"The function '{name}' must return a `keras.Model` with {num_classes} logits."
    check(isinstance(model, keras.Model), f"{expected} Received: {model!r}.")
    check_classifier(model)
    classes = model.output_shape[-1]
    check(classes == num_classes, f"{expected} Received: '{model.name}' with {classes}.")
    return model


def call_builder(build: Callable, num_classes: int | None, input_shape: tuple[int, ...] | None):
    """What a user's function returns that builds a model, with or without arguments.

    Example:

    >>> call_builder(lambda num_classes, input_shape: (num_classes, input_shape), 10, (32, 32, 3))
    (10, (32, 32, 3))
    """
    known = {"num_classes": num_classes, "input_shape": input_shape}
    takes = inspect.signature(build).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in takes.values())
    return build(**{name: value for name, value in known.items() if takes_all or name in takes})


def is_builder(function) -> bool:
    """Whether a function asks for nothing but what a builder of models gets, and so for no images.

    Example:

    >>> is_builder(lambda num_classes, input_shape: None), is_builder(lambda images: images)
    (True, False)
    """
    if not inspect.isroutine(function):
        return False
    takes = inspect.signature(function).parameters.values()
    needed = {one.name for one in takes if one.default is one.empty and one.kind is not one.VAR_KEYWORD}
    return needed <= {"num_classes", "input_shape"}


def _normalized(images, mean: Statistics | None, std: Statistics | None):
    if mean is None and std is None:
        return images
    if mean is None or std is None:
        raise InputError(f"`mean` and `std` must be given together. Received: mean={mean}, std={std}.")
    num_channels = images.shape[-1]
    means, stds = _for_each_channel("mean", mean, num_channels), _for_each_channel("std", std, num_channels)
    check(min(stds) > 0, f"`std` must be larger than 0. Received: std={std}.")
    # Half precision would round away a part of a small perturbation.
    return keras.layers.Normalization(
        mean=means, variance=[value**2 for value in stds], dtype=_whole_precision(), name=NORMALIZATION
    )(images)


def _whole_precision() -> str:
    """The dtype of images and logits: the dtype of the weights, so float32 under mixed precision."""
    return keras.config.dtype_policy().variable_dtype


def _for_each_channel(argument: str, value: Statistics, num_channels: int) -> list[float]:
    if isinstance(value, int | float):
        return [float(value)] * num_channels
    values = [float(each) for each in value]
    check(
        len(values) == num_channels,
        f"`{argument}` must be one number, or one for each of the {num_channels} channels. "
        f"Received: {argument}={values}.",
    )
    return values


def _head(features, blocks: Blocks, num_classes: int, head: str, scale: float, weight_norm: str):
    if head == "linear":
        return blocks.dense(features, num_classes, name="head", dtype=_whole_precision())
    kernel = blocks.uniform(1 / math.sqrt(features.shape[-1]))
    form: dict[str, Any] = {
        "normalize_features": head != "wn",
        "normalize_weights": head != "fn",
        "angular": head == "mhe",
    }
    rest = {"weight_norm": weight_norm, "kernel_initializer": kernel, "name": "head"}
    return CosineDense(num_classes, scale=scale, **form, **rest)(features)
