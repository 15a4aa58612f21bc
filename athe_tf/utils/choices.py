"""Values and rules that flags and the library share, without TensorFlow.

Messages call a value by its `display_name`: the flag, or the argument.
"""

import math
from collections.abc import Sequence

from athe_tf.utils.errors import InputError, check, check_choice
from athe_tf.utils.number_format import parse_number

NORMS = ("linf", "l2", "l1")
STARTS = ("uniform", "gaussian", "zero")
#: How weight normalization meets the optimizer, see `CosineDense`.
WEIGHT_NORMS = ("differentiable", "project", "straight_through")
#: Where the attacks of an evaluation take their gradients from, see `EvaluationOptions`.
GRADIENTS = ("model", "folded", "bfloat16")
#: Forms of the margin in the training loss, see `MarginCrossentropy`.
MARGIN_FORMS = ("cosine", "angle", "arc")

#: The formats of exported models, and how the names of their files end; a SavedModel is a folder.
EXPORT_SUFFIXES: dict[str, tuple[str, ...]] = {
    "saved_model": (),
    "torch": (".pt", ".pth", ".safetensors"),
    "onnx": (".onnx",),
    "litert": (".tflite",),
    "litert_int8": (".tflite",),
    "vnnlib": (),
}
#: The names of files that run in another runtime than TensorFlow end with these.
RUNTIME_SUFFIXES = (".onnx", ".tflite")


def check_epsilon(norm: str, epsilon: float, display_name: str = "epsilon") -> None:
    """Raises `InputError` for a radius, in pixels of [0, 1], that no threat model can have."""
    check_choice("norm", norm, NORMS)
    check(
        math.isfinite(epsilon) and epsilon >= 0,
        f"{display_name} must be finite and not negative. Received: {display_name}={epsilon:g}.",
    )
    check(
        norm != "linf" or epsilon <= 1,
        f"Pixels lie in [0, 1], so {display_name} must not exceed 1 in linf. Received: "
        f"{display_name}={epsilon:g}. Did you mean {display_name}={epsilon:g}/255?",
    )


def parse_threat_models(
    texts: Sequence[str], norm: str | None = None, epsilon: float | None = None, display_name: str = "norms"
) -> list[tuple[str, float]]:
    """Reads norms with their radii. `norm` and `epsilon` must be the first of them, if they are given.

    Example:

    >>> parse_threat_models(["linf:8/255", "l2:0.5"])
    [('linf', 0.03137254901960784), ('l2', 0.5)]
    """
    found: list[tuple[str, float]] = []
    received = f"Received: {display_name}={','.join(map(str, texts))}"
    for text in texts:
        name, colon, number = str(text).partition(":")
        check(
            bool(colon) and name not in dict(found),
            f"{display_name} must have every norm once, with its radius, such as linf:8/255,l2:0.5,l1:12. "
            f"{received}.",
        )
        try:
            found.append((name, parse_number(number)))
            check_epsilon(*found[-1])
        except InputError as error:
            raise InputError(f"{display_name}, '{text}': {error}") from None
    if found:
        check(
            norm in (None, found[0][0]) and epsilon in (None, found[0][1]),
            f"{display_name} has the radii of all norms. {received}, and also norm={norm}, "
            f"epsilon={epsilon}. Leave these out.",
        )
    return found


def check_logit_scale(logit_scale: float | str, display_name: str = "logit_scale") -> None:
    """Raises `InputError` unless a scale of logits is `"model"` or a positive number."""
    check(
        logit_scale == "model" or (isinstance(logit_scale, int | float) and logit_scale > 0),
        f"{display_name} must be 'model' or a number larger than 0. Received: {display_name}={logit_scale}.",
    )
    check(
        not isinstance(logit_scale, float) or math.isfinite(logit_scale),
        f"{display_name} must be 'model' or a finite number. Received: {display_name}={logit_scale}.",
    )


def parse_logit_scale(text: float | str, display_name: str = "logit_scale") -> float | str:
    """Reads a scale of logits: `"model"` or a number, as text or not.

    Example:

    >>> parse_logit_scale("15")
    15.0
    """
    scale = parse_number(text) if isinstance(text, str) and text != "model" else text
    check_logit_scale(scale, display_name)
    return scale


def check_statistics(mean, std, channels: int | None = None) -> None:
    """Raises `InputError` unless mean and standard deviation are given for the same channels, or for none."""
    wanted = len(mean) if channels is None else channels
    check(
        len(mean) == len(std) == wanted and all(value > 0 for value in std),
        "Mean and standard deviation go together: one number for each channel, the deviations above 0. "
        "Received: "
        f"mean={', '.join(f'{value:g}' for value in mean)}; std={', '.join(f'{value:g}' for value in std)}"
        + (f" for {channels} channels." if channels else "."),
    )


def check_input_range(input_range, display_name: str = "input_range") -> None:
    """Raises `InputError` unless a range, from the smallest to the largest pixel, is two rising numbers."""
    check(
        len(input_range) == 2 and float("-inf") < input_range[0] < input_range[1] < float("inf"),
        f"{display_name} must be two rising numbers, the smallest and the largest value of a pixel, such as "
        f"0 and 255. Received: {', '.join(f'{value:g}' for value in input_range)}.",
    )
