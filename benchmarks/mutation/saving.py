"""Slips in `athe_tf/saving/` and `athe_tf/zoo/`."""

from benchmarks.mutation.slip import Slip

HERE = "athe_tf/saving"
CARDS = ("tests/saving/test_cards.py",)
SAVED = "tests/saving/test_saved_model.py"
FILES = "tests/saving/test_model_files.py"
CONVERTED = "tests/saving/test_converted_file.py"

SLIPS = (
    Slip(
        "S1",
        f"{HERE}/saved_model.py",
        "with locked(folder.parent, lock_name(folder.name)):",
        "if True:",
        CARDS,
    ),
    Slip(
        "S2",
        "athe_tf/models/card.py",
        '(True, False): "fn", (False, True): "wn"',
        '(True, False): "wn", (False, True): "fn"',
        CARDS,
    ),
    Slip("S3", "athe_tf/models/card.py", "[float(v) ** 0.5 for v", "[float(v) for v", CARDS),
    Slip("S4", "athe_tf/models/card.py", '"margin": margin,', '"margin": None,', CARDS),
    Slip(
        "S5",
        f"{HERE}/saved_model.py",
        '"serve", lambda x: net(x, training=False)',
        '"serve", lambda x: net(x, training=True)',
        CARDS,
    ),
    Slip(
        "S6",
        f"{HERE}/saved_model.py",
        "lambda x: features(x, training=False)",
        "lambda x: features(x, training=True)",
        CARDS,
    ),
    Slip(
        "S7",
        f"{HERE}/saved_model.py",
        "with replacing_folder(folder) as new:",
        "folder.mkdir(exist_ok=True)\n        with __import__('contextlib').nullcontext(folder) as new:",
        (f"{SAVED}::test_an_export_is_replaced_only_by_a_complete_one",),
    ),
    Slip(
        "S8",
        f"{HERE}/saved_model.py",
        "all(map(_EXPORTED.fullmatch, inside))",
        "True",
        (f"{SAVED}::test_an_export_with_other_files_is_not_replaced",),
    ),
    Slip("S9", "athe_tf/conversion/converted_file.py", "check(not path.exists(),", "check(True,", CARDS),
    Slip(
        "S10",
        "athe_tf/conversion/converted_file.py",
        "{**describe(net, margin), ",
        "{**describe(net), ",
        CARDS,
    ),
    Slip(
        "S11",
        "athe_tf/conversion/converted_file.py",
        "(-mean / std).tolist()",
        "(-mean).tolist()",
        (f"{CONVERTED}::test_the_copy_for_converters_computes_the_same_logits",),
    ),
    Slip(
        "S12",
        "athe_tf/conversion/vnnlib.py",
        "np.minimum(pixels + epsilon, 1.0)",
        "pixels + epsilon",
        ("tests/conversion/test_vnnlib.py::test_the_property_is_the_ball_in_the_order_of_the_input",),
    ),
    Slip(
        "S13",
        "athe_tf/conversion/converted_file.py",
        "isinstance(layer, keras.layers.Normalization):\n        return []",
        "False:\n        return []",
        (f"{CONVERTED}::test_a_normalization_that_was_adapted_is_converted",),
    ),
    Slip(
        "S14",
        f"{HERE}/keras_file.py",
        "        with safe_mode():\n            return",
        "        if True:\n            return",
        (f"{FILES}::test_a_lambda_layer_is_refused_and_not_run",),
    ),
    Slip(
        "S15",
        f"{HERE}/keras_file.py",
        "compile=compile, safe_mode=True",
        "compile=False, safe_mode=True",
        ("tests/saving/test_loading_in_keras.py::test_load_model_can_go_on_with_fit",),
    ),
    Slip(
        "S16",
        "athe_tf/saving/names.py",
        '("clean", "pgd-20", "worst_case")',
        '("clean", "worst_case", "pgd-20")',
        CARDS,
    ),
)
