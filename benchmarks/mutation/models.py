"""Slips in `athe_tf/models/`, and in the weights that models share with PyTorch."""

from benchmarks.mutation.slip import Slip

HERE = "athe_tf/models/"
TORCH = "athe_tf/conversion/torch_weights.py"
FORMULAS = ("tests/models/test_formulas.py",)
BUILD = "tests/models/test_build.py::"
PARITY = "tests/models/test_torch_parity.py::test_logits_are_those_that_pytorch_computed_on_the_same_weights"
DENOISING = ("tests/models/test_denoising.py::test_it_adds_a_softmax_mean_over_all_positions",)
HYPERSPHERE = (
    "tests/models/test_hypersphere.py::test_logits_are_the_scaled_cosines_of_the_old_features_and_weights",
)
FOLDING = ("tests/models/test_folding.py::test_logits_features_and_gradients_are_those_of_the_network",)
LOGITS = "tests/models/test_logits.py::"

SLIPS = (
    Slip("M1", HERE + "blocks.py", "LEAKY_SLOPE = 0.1", "LEAKY_SLOPE = 0.01", FORMULAS),
    Slip("M2", HERE + "blocks.py", "self.seed * 10007 + self._layers", "self.seed + self._layers", FORMULAS),
    Slip(
        "M3",
        HERE + "blocks.py",
        '2.0, "fan_out", "untruncated_normal"',
        '2.0, "fan_in", "untruncated_normal"',
        FORMULAS,
    ),
    Slip(
        "M4",
        HERE + "blocks.py",
        "limit = 1 / math.sqrt(kernel * kernel * x.shape[-1])",
        "limit = 1 / math.sqrt(kernel * x.shape[-1])",
        FORMULAS,
    ),
    Slip(
        "M5",
        HERE + "blocks.py",
        "((0, 1), (0, 1)) if self.pad_far_side",
        "((1, 0), (1, 0)) if self.pad_far_side",
        FORMULAS,
    ),
    Slip(
        "M6",
        HERE + "blocks.py",
        "else kernel // 2\n",
        "else ((0, 1), (0, 1))\n",
        (BUILD + "test_strided_convolutions_pad_both_sides",),
    ),
    Slip("M7", HERE + "blocks.py", "standard * width // 16", "max(standard * width // 16, 8)", FORMULAS),
    Slip(
        "M8",
        HERE + "builder.py",
        "variance=[value**2 for value in stds]",
        "variance=stds",
        (BUILD + "test_normalization_lives_in_the_model",),
    ),
    Slip("M11", HERE + "names.py", '{"he": 0.2, "mhe": 0.1}', '{"he": 0.2, "mhe": 0.2}', FORMULAS),
    Slip(
        "M12",
        "athe_tf/models/networks.py",
        "yield group, 2 if group and not block else 1",
        "yield group, 1 if block else 2",
        FORMULAS,
    ),
    Slip(
        "M13",
        "athe_tf/models/networks.py",
        "source = x if shortcut_of_input else out",
        "source = out",
        (PARITY,),
    ),
    Slip(
        "M14",
        "athe_tf/models/networks.py",
        'x = blocks.norm_act(x, name="bn") if last_norm else x',
        'x = blocks.norm(x, name="bn") if last_norm else x',
        (PARITY,),
    ),
    Slip(
        "M15",
        "athe_tf/models/networks.py",
        "1 / math.sqrt(channels // 2)",
        "1 / math.sqrt(channels)",
        DENOISING,
    ),
    Slip(
        "M16",
        HERE + "hypersphere.py",
        "keras.ops.reshape(classifier.kernel, (-1, units))",
        "-keras.ops.reshape(classifier.kernel, (-1, units))",
        HYPERSPHERE,
    ),
    Slip(
        "M17",
        HERE + "adapters.py",
        "Rescaling(high - low, low,",
        "Rescaling(high, low,",
        (LOGITS + "test_a_model_of_another_range_takes_images_in_0_1",),
    ),
    Slip(
        "M18",
        HERE + "adapters.py",
        "copy.set_weights(layer.get_weights())",
        "pass",
        (LOGITS + "test_the_softmax_of_the_logits_is_what_the_model_returned",),
    ),
    Slip(
        "M19",
        "athe_tf/models/adapters.py",
        "copy.set_weights(member.get_weights())",
        "pass",
        ("tests/training/test_periods.py::test_an_ensemble_predicts_the_mean_of_the_probabilities",),
    ),
    Slip(
        "M20",
        HERE + "hypersphere.py",
        "np.linalg.norm(logits, axis=1).mean()",
        "np.linalg.norm(logits)",
        ("tests/models/test_scale.py::test_the_scale_is_the_mean_norm_of_the_logits",),
    ),
    Slip("M21", HERE + "victim.py", "(low + (high - low) * x - shift)", "(low + high * x - shift)", FORMULAS),
    Slip(
        "M22",
        HERE + "victim.py",
        "end: Head, training: bool = False)",
        "end: Head, training: bool = True)",
        FORMULAS,
    ),
    Slip(
        "M23",
        HERE + "victim.py",
        "scale=head.scale if isinstance(head, CosineDense) else 1.0",
        "scale=1.0",
        FORMULAS,
    ),
    Slip("M24", HERE + "card.py", "[float(v) ** 0.5 for v", "[float(v) for v", FORMULAS),
    Slip("M25", HERE + "card.py", "not 0 < value < math.inf", "not 0 <= value < math.inf", FORMULAS),
    Slip(
        "M26",
        HERE + "digest.py",
        'for name in ("class_name", "config")}',
        'for name in ("class_name",)}',
        FORMULAS,
    ),
    Slip(
        "M27",
        HERE + "digest.py",
        "    for variable in model.weights:",
        "    for variable in model.weights[:1]:",
        FORMULAS,
    ),
    Slip(
        "M28",
        TORCH,
        "return weight.transpose(2, 3, 1, 0)",
        "return weight.transpose(3, 2, 1, 0)",
        (PARITY,),
    ),
    Slip("M29", TORCH, "arrays[2] = arrays[2] - ", "arrays[2] = arrays[2] + ", (PARITY,)),
    Slip(
        "M30",
        HERE + "features.py",
        "while is_identity(layer) or (before_softmax and is_softmax_layer(layer)):",
        "while before_softmax and is_softmax_layer(layer):",
        ("tests/models/test_features.py::test_an_activation_that_changes_nothing_is_looked_through",),
    ),
    Slip(
        "M9",
        HERE + "builder.py",
        '"normalize_features": head != "wn"',
        '"normalize_features": head != "fn"',
        (BUILD + "test_the_head_decides_what_is_normalized",),
    ),
    Slip(
        "M10",
        HERE + "builder.py",
        "blocks.uniform(1 / math.sqrt(features.shape[-1]))",
        "blocks.uniform(1 / features.shape[-1])",
        FORMULAS,
    ),
    Slip(
        "M81",
        HERE + "folding.py",
        "self.back |= dict.fromkeys(behind, scale)",
        "self.back |= dict.fromkeys(behind, abs(scale))",
        FOLDING,
    ),
    Slip(
        "M82",
        HERE + "folding.py",
        "and len(self.after[id(conv.output)]) == 1",
        "",
        (
            "tests/models/test_folding.py::test_what_only_looks_like_a_convolution_and_its_normalization_is_not_folded",
        ),
    ),
)
