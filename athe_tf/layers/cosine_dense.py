"""`CosineDense`, the hypersphere-embedding head."""

import math
import numbers
from typing import Any, NamedTuple

import keras
from keras import ops

from athe_tf.utils.choices import WEIGHT_NORMS
from athe_tf.utils.errors import InputError, check, check_choice, check_integer
from athe_tf.utils.keras_compat import attach, attached

# cos is kept this far from +-1, where the slope of the angle is infinite.
ANGULAR_CLIP = 1e-6
# PyTorch's `normalize` divides by max(norm, 1e-12); this is its square.
SMALLEST_SQUARED_NORM = 1e-24
# The note on a tensor of logits that says which head computed it.
_HEAD = "_athe_tf_head"


class LogitsOrigin(NamedTuple):
    """The head that computed some logits, for losses that must agree with it."""

    layer: str
    scale: float
    angular: bool
    cosines: bool


def origin_of(logits) -> LogitsOrigin | None:
    """The `CosineDense` that computed a tensor; `None` if another layer did, or if that is not known."""
    return attached(logits, _HEAD)


def adacos_scale(units: int) -> float:
    """The fixed scale of AdaCos, `sqrt(2) * ln(units - 1)` (Zhang et al., CVPR 2019).

    Example:

    >>> round(adacos_scale(10), 4)
    3.1073
    """
    check(
        units > 2,
        f"`scale='adacos'` is sqrt(2) * ln(units - 1), which is 0 for two classes. Received: units={units}. "
        "Give a number, such as scale=15.0.",
    )
    return math.sqrt(2.0) * math.log(units - 1)


def unit_vectors(x, axis: int):
    """`x / ||x||` along `axis`. A vector of length zero stays zero, with a zero gradient."""
    squared = ops.sum(ops.square(x), axis=axis, keepdims=True)
    inverse = ops.rsqrt(ops.maximum(squared, SMALLEST_SQUARED_NORM))
    return x * ops.where(squared > SMALLEST_SQUARED_NORM, inverse, ops.zeros_like(inverse))


@keras.saving.register_keras_serializable(package="athe_tf")
class UnitColumns(keras.constraints.Constraint):
    """Projects every column of a kernel to the unit sphere."""

    def __call__(self, w):
        return unit_vectors(w, axis=0)


@keras.saving.register_keras_serializable(package="athe_tf")
class CosineDense(keras.layers.Layer):
    """A classification head on the unit sphere: scaled cosines instead of inner products.

    With unit features `z / ||z||` (FN) and unit class weights `W_l / ||W_l||` (WN), the output is
    `scale * cos(theta)`, where `theta_l` is the angle between the features and class `l` (Eq. 4 and 5
    of the reference, times s). With `angular=True` it is `-scale * theta` (m-HE, section 3.5). There is
    no bias, and the largest output is the prediction. The margin of Eq. 6 belongs to the training loss:
    see `athe_tf.MarginCrossentropy`.

    The outputs are *scaled*, so confidences mean something and cross-entropy attacks work. Raw cosines,
    which the reference's evaluation used, make cross-entropy a weak attack.

    All of it is computed in float32 under mixed precision, with finite values and gradients at zero
    features and at cos = +-1.

    Example:

    >>> import keras
    >>> features = keras.Input((64,))
    >>> model = keras.Model(features, athe_tf.CosineDense(10, scale=15.0)(features))
    >>> model.compile("sgd", loss=athe_tf.MarginCrossentropy(margin=0.2, scale=15.0))
    >>> model.output_shape
    (None, 10)

    Args:
        units: Number of classes.
        scale: The s of the paper, larger than zero. A rule of thumb is the mean logit norm of a
            standard model, about 10 to 15. `"adacos"` stands for `sqrt(2) * ln(units - 1)`, for three classes
            or more; the attribute `scale` is then that number. Defaults to `15.0`.
        normalize_features: FN. Defaults to `True`.
        normalize_weights: WN. Defaults to `True`.
        angular: Output `-scale * theta`; needs both normalizations. Defaults to `False`.
        weight_norm: How WN interacts with the optimizer. `"differentiable"` (default) differentiates through
            `W / ||W||`, which suits weight averaging and weight perturbation. `"project"` keeps the
            stored kernel at unit norm: after each update it is projected, and the gradient is
            Euclidean (the released code on one device). `"straight_through"` normalizes in the
            forward pass and treats that as the identity in the backward pass (the released code on
            several devices, which the paper used).
        kernel_initializer: Defaults to uniform in `+-1/sqrt(features)`, PyTorch's default.
        sub_centers: Centers per class; the nearest of them counts, so that a class may consist of several
            clusters, or keep its noisy labels away from its main center. The kernel has `sub_centers`
            consecutive columns for each class. Defaults to `1`.

    Reference:
        Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020.
        Zhang et al., "AdaCos: Adaptively Scaling Cosine Logits", CVPR 2019 (`scale="adacos"`).
        Deng et al., "Sub-center ArcFace", ECCV 2020 (`sub_centers`).
    """

    def __init__(
        self,
        units: int,
        scale: float | str = 15.0,
        normalize_features: bool = True,
        normalize_weights: bool = True,
        angular: bool = False,
        weight_norm: str = "differentiable",
        kernel_initializer=None,
        sub_centers: int = 1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check(units >= 1, f"`units` must be a positive integer. Received: units={units}.")
        check_integer("sub_centers", sub_centers, 1)
        check_choice("weight_norm", weight_norm, WEIGHT_NORMS)
        if angular and not (normalize_features and normalize_weights):
            raise InputError(
                "`angular=True` needs cosines, so both features and weights must be normalized. Received: "
                f"normalize_features={normalize_features}, normalize_weights={normalize_weights}. "
                "Use angular=False for FN or WN alone."
            )
        self.units = int(units)
        self.scale = _checked_scale(scale, self.units)
        self.normalize_features, self.normalize_weights = bool(normalize_features), bool(normalize_weights)
        self.angular, self.weight_norm = bool(angular), weight_norm
        self.kernel_initializer = keras.initializers.get(
            kernel_initializer or keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        )
        self.sub_centers = int(sub_centers)
        self.input_spec = keras.layers.InputSpec(min_ndim=2)
        self.autocast = False

    @property
    def numeric_dtype(self):
        """The dtype of the head's arithmetic: the weights' own, never half precision."""
        return "float64" if self.variable_dtype == "float64" else "float32"

    def build(self, input_shape):
        features = input_shape[-1]
        project = self.normalize_weights and self.weight_norm == "project"
        self.kernel = self.add_weight(
            name="kernel",
            shape=(features, self.units * self.sub_centers),
            initializer=self.kernel_initializer,
            constraint=UnitColumns() if project else None,
            dtype=self.numeric_dtype,
            autocast=False,
        )
        if project:
            self.kernel.assign(unit_vectors(self.kernel, axis=0))
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: features})

    def class_directions(self):
        """The class weights as the head uses them: unit columns if `normalize_weights`."""
        kernel = ops.convert_to_tensor(self.kernel)
        if not self.normalize_weights or self.weight_norm == "project":
            return kernel
        unit = unit_vectors(kernel, axis=0)
        if self.weight_norm == "straight_through":
            return ops.stop_gradient(unit) + (kernel - ops.stop_gradient(kernel))
        return unit

    def similarities(self, features):
        """What is scaled: cosines if both sides are normalized, inner products otherwise."""
        features = ops.cast(features, self.numeric_dtype)
        if self.normalize_features:
            features = unit_vectors(features, axis=-1)
        products = ops.matmul(features, self.class_directions())
        if self.sub_centers == 1:
            return products
        centers = ops.reshape(products, (*ops.shape(products)[:-1], self.units, self.sub_centers))
        return ops.max(centers, axis=-1)

    def call(self, inputs):
        similarities = self.similarities(inputs)
        if self.angular:
            limit = 1.0 - ANGULAR_CLIP
            cosines = ops.clip(similarities, -limit, limit)
            # The arc cosine, by operations that every converter has.
            similarities = -ops.arctan2(ops.sqrt((1.0 - cosines) * (1.0 + cosines)), cosines)
        logits = self.scale * similarities
        attach(logits, _HEAD, self._origin())
        return logits

    def _origin(self) -> LogitsOrigin:
        """What a loss must know about this head."""
        cosines = self.normalize_features and self.normalize_weights
        return LogitsOrigin(self.name, self.scale, self.angular, cosines)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.numeric_dtype)

    def get_config(self):
        names = ("units", "scale", "normalize_features", "normalize_weights", "angular", "weight_norm")
        config = super().get_config() | {name: getattr(self, name) for name in names}
        config["kernel_initializer"] = keras.initializers.serialize(self.kernel_initializer)
        # Written only where it is used: the config is part of the digest that identifies a model.
        return config if self.sub_centers == 1 else config | {"sub_centers": self.sub_centers}


def _checked_scale(scale: Any, units: int) -> float:
    if scale == "adacos":
        return adacos_scale(units)
    check(
        isinstance(scale, numbers.Real) and 0 < float(scale) < math.inf,
        f"`scale` must be larger than 0, or 'adacos'. Received: scale={scale!r}.",
    )
    return float(scale)
