"""Slips in `athe_tf/losses.py` and `athe_tf/layers/`."""

from benchmarks.mutation.slip import Slip

LOSSES = "athe_tf/losses.py"
HEAD = "athe_tf/layers/cosine_dense.py"
NORM = "athe_tf/layers/batch_norm.py"
ENSEMBLE = "athe_tf/layers/log_mean_softmax.py"
OF_LOSSES = ("tests/test_losses.py",)
OF_MARGINS = ("tests/test_margin_forms.py",)
OF_HEAD = ("tests/layers/test_cosine_dense.py",)
OF_NORM = ("tests/layers/test_batch_norm.py",)
OF_ENSEMBLE = ("tests/layers/test_log_mean_softmax.py",)

SLIPS = (
    Slip(
        "L1",
        LOSSES,
        "+ label_smoothing / logits.shape[-1]",
        "+ label_smoothing / (logits.shape[-1] - 1)",
        OF_LOSSES,
    ),
    Slip(
        "L2",
        LOSSES,
        "ops.exp(log_p) * (log_p - ops.log_softmax(logits))",
        "ops.softmax(logits) * (log_p - ops.log_softmax(logits))",
        OF_LOSSES,
    ),
    Slip("L3", LOSSES, "-2.0 * scale - turned", "-scale - turned", OF_MARGINS),
    Slip(
        "L4",
        LOSSES,
        "beyond = logits < -scale * cosine_of_margin",
        "beyond = logits < -scale * (1.0 - cosine_of_margin)",
        OF_MARGINS,
    ),
    Slip("L5", LOSSES, "ops.mean(squares, axis=-1)", "ops.sum(squares, axis=-1)", OF_LOSSES),
    Slip("L6", LOSSES, "SMALLEST_SQUARED_LENGTH = 1e-24", "SMALLEST_SQUARED_LENGTH = 0.0", OF_LOSSES),
    Slip("L7", LOSSES, "(scale - logits) * (scale + logits)", "scale**2 - logits**2", OF_MARGINS),
    Slip("L8", LOSSES, "logits - shift * target", "logits + shift * target", OF_LOSSES),
    Slip(
        "L9",
        LOSSES,
        "ops.softmax(reference_logits) * ops.log_softmax(logits)",
        "ops.softmax(logits) * ops.log_softmax(reference_logits)",
        OF_LOSSES,
    ),
    Slip(
        "L10",
        HEAD,
        'if not self.normalize_weights or self.weight_norm == "project":',
        "if not self.normalize_weights:",
        OF_HEAD,
    ),
    Slip("L11", HEAD, "constraint=UnitColumns() if project else None", "constraint=None", OF_HEAD),
    Slip("L12", HEAD, "self.kernel.assign(unit_vectors(self.kernel, axis=0))", "pass", OF_HEAD),
    Slip("L13", HEAD, "return ops.stop_gradient(unit) + (kernel", "return unit + (kernel", OF_HEAD),
    Slip(
        "L14",
        HEAD,
        'VarianceScaling(1 / 3, "fan_in", "uniform")',
        'VarianceScaling(1 / 3, "fan_avg", "uniform")',
        OF_HEAD,
    ),
    Slip("L15", HEAD, "ANGULAR_CLIP = 1e-6", "ANGULAR_CLIP = 1e-7", OF_HEAD),
    Slip(
        "L16",
        HEAD,
        "x * ops.where(squared > SMALLEST_SQUARED_NORM, inverse, ops.zeros_like(inverse))",
        "x * inverse",
        OF_HEAD,
    ),
    Slip(
        "L17",
        HEAD,
        "self.units, self.sub_centers))\n        return ops.max(centers, axis=-1)",
        "self.sub_centers, self.units))\n        return ops.max(centers, axis=-2)",
        OF_HEAD,
    ),
    Slip("L18", HEAD, "math.log(units - 1)", "math.log(units)", OF_HEAD),
    Slip("L19", HEAD, "scale: float | str = 15.0,", "scale: float | str = 10.0,", OF_HEAD),
    Slip(
        "L20",
        HEAD,
        "cosines = self.normalize_features and self.normalize_weights",
        "cosines = self.normalize_features or self.normalize_weights",
        OF_MARGINS,
    ),
    Slip("L21", HEAD, "SMALLEST_SQUARED_NORM = 1e-24", "SMALLEST_SQUARED_NORM = 1e-12", OF_HEAD),
    Slip("L22", NORM, "epsilon: float = 1e-5,", "epsilon: float = 1e-3,", OF_NORM),
    Slip(
        "L23", NORM, "variance * count / tf.maximum(count - 1, 1)", "variance * count / (count - 1)", OF_NORM
    ),
    Slip(
        "L24",
        NORM,
        "_entered(update=update, capture_in=statistics)",
        "_entered(capture_in=statistics)",
        OF_NORM,
    ),
    Slip(
        "L25",
        NORM,
        "if self.trainable and mode.frozen is not None:",
        "if training and self.trainable and mode.frozen is not None:",
        OF_NORM,
    ),
    Slip(
        "L26",
        NORM,
        "return scale, self._beta(dtype) - tf.cast(mean, dtype) * scale",
        "return scale, self._beta(dtype) - tf.cast(mean, dtype)",
        OF_NORM,
    ),
    Slip(
        "L27",
        NORM,
        "sums = tf.reduce_sum(whole * _whole(x), axes), tf.reduce_sum(whole, axes)",
        "sums = tf.reduce_sum(whole, axes), tf.reduce_sum(whole, axes)",
        OF_NORM,
    ),
    Slip("L28", ENSEMBLE, " - ops.log(ops.cast(self.members, total.dtype))", "", OF_ENSEMBLE),
    Slip(
        "L29",
        ENSEMBLE,
        "(-1, self.members, inputs.shape[-1] // self.members)",
        "(-1, inputs.shape[-1] // self.members, self.members)",
        OF_ENSEMBLE,
    ),
    Slip(
        "L30",
        LOSSES,
        "math.isclose(origin.scale, self.scale, rel_tol=1e-6)",
        "math.isclose(origin.scale, self.scale, rel_tol=0.05)",
        OF_MARGINS,
    ),
    Slip("L31", LOSSES, "float(np.max(values)) <= math.pi", "float(np.max(values)) < math.pi", OF_MARGINS),
    Slip(
        "L32", LOSSES, "(1.0 - target) * logits + target * _turned", "logits + target * _turned", OF_MARGINS
    ),
    Slip(
        "L33",
        NORM,
        "tf.cast(tf.stop_gradient(value), variable.dtype)",
        "tf.cast(value, variable.dtype)",
        OF_NORM,
        reason="An assignment has no gradient.",
    ),
)
