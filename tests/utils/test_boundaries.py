"""Values at the edges of what is accepted, and how numbers are written; nothing here needs TensorFlow."""

import dataclasses
import math

import numpy as np
import pytest

from athe_tf.utils.choices import check_epsilon, check_input_range, check_logit_scale, parse_logit_scale
from athe_tf.utils.digests import array_digest, file_digest, text_digest
from athe_tf.utils.errors import InputError, check_choice, check_integer
from athe_tf.utils.images_and_labels import DIVIDE, NORMALIZE_INSIDE, out_of_range
from athe_tf.utils.number_format import format_duration, format_number, parse_number
from athe_tf.utils.options import check_option, check_options, make_options, option


@dataclasses.dataclass(frozen=True)
class Bounded:
    """One option for each kind of bound."""

    least: float = option(2.0, "At least 2.", ge=2)
    natural: float = option(0.0, "Not negative.", ge=0)
    above: float = option(1.0, "Larger than 0.", gt=0)
    half_open: float = option(0.0, "In [0, 1).", ge=0, lt=1)
    open: float = option(0.5, "In (0, 1).", gt=0, lt=1)
    kind: str = option("a", "One of two.", choices=("a", "b"))
    free: float = option(0.0, "Anything.")


@pytest.mark.parametrize(
    "name, taken, refused, message",
    [
        ("least", (2, 2.5), (1.999, math.inf, math.nan), "least must be at least 2"),
        ("natural", (0, 1e9), (-1e-9, math.nan), "natural must be finite and not negative"),
        ("above", (1e-9,), (0, -1, math.inf), "above must be a finite number larger than 0"),
        ("half_open", (0, 0.999), (-1e-9, 1, 2), r"half_open must lie in \[0, 1\)"),
        ("open", (1e-9, 0.999), (0, 1), r"open must lie in \(0, 1\)"),
        ("kind", ("a", "b"), ("c",), "Unknown kind 'c'"),
    ],
)
def test_the_bounds_of_an_option_are_taken_or_refused_as_documented(name, taken, refused, message):
    for value in (*taken, None):
        check_option(Bounded, name, value)
    for value in refused:
        with pytest.raises(InputError, match=message):
            check_option(Bounded, name, value)


def test_every_field_is_checked_and_called_by_the_name_that_the_user_knows():
    check_options(Bounded(free=math.inf))
    with pytest.raises(InputError, match="--open must lie in"):
        check_options(Bounded(open=1.0), display_name="--{}".format)
    with pytest.raises(InputError, match="Unknown argument 'opne' of me. Options of me: least, natural"):
        make_options(Bounded, {"opne": 0.5}, "me")
    assert make_options(Bounded, {"open": 0.25}, "me").open == 0.25


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31m", ("fine", "a\tb")])
def test_a_text_with_control_characters_is_refused(text):
    with pytest.raises(InputError, match="without line breaks"):
        check_option(Bounded, "free", text)


@pytest.mark.parametrize("value", [1, np.int64(3)])
def test_integers_from_the_least_are_taken(value):
    check_integer("k", value, 1)


@pytest.mark.parametrize("value", [0, True, 1.0, "1", None])
def test_what_is_no_such_integer_is_refused(value):
    with pytest.raises(InputError, match="Expected an integer of at least 1"):
        check_integer("k", value, 1)


def test_choices_are_listed():
    check_choice("mode", "b", ("b", "a"))
    with pytest.raises(InputError, match=r"Expected one of \['a', 'b'\]. Received: mode='c'"):
        check_choice("mode", "c", ("b", "a"))


@pytest.mark.parametrize("norm, epsilon", [("linf", 0), ("linf", 1), ("l2", 1.5), ("l1", 12)])
def test_a_radius_that_a_threat_model_can_have_is_taken(norm, epsilon):
    check_epsilon(norm, epsilon)


@pytest.mark.parametrize(
    "norm, epsilon, message",
    [
        ("linf", 1.0001, "must not exceed 1 in linf"),
        ("linf", 8, "Did you mean epsilon=8/255"),
        ("l2", -0.1, "finite and not negative"),
        ("l2", math.inf, "finite and not negative"),
        ("l0", 1, "Received: norm='l0'"),
    ],
)
def test_other_radii_are_refused(norm, epsilon, message):
    with pytest.raises(InputError, match=message):
        check_epsilon(norm, epsilon)


def test_a_scale_of_logits_is_that_of_the_model_or_a_positive_number():
    for scale in ("model", 1, 0.5):
        check_logit_scale(scale)
    for scale in (0, -1, "15"):
        with pytest.raises(InputError, match="must be 'model' or a number larger than 0"):
            check_logit_scale(scale)
    assert parse_logit_scale("model") == "model" and parse_logit_scale("1/2") == 0.5


@pytest.mark.parametrize("values", [(1, 1), (1, 0), (0,), (0, 1, 2), (0, math.inf), (-math.inf, 0)])
def test_a_range_of_pixels_rises(values):
    check_input_range((0, 255))
    check_input_range((-1.0, 1.0))
    with pytest.raises(InputError, match="two rising numbers"):
        check_input_range(values)


# 255 is the largest pixel; beyond it, and below 0, the images were normalized.
@pytest.mark.parametrize(
    "low, high, remedy",
    [
        (0, 255, DIVIDE),
        (0, 1.5, DIVIDE),
        (0, 256, NORMALIZE_INSIDE),
        (-0.1, 255, NORMALIZE_INSIDE),
        (-2.1, 2.6, NORMALIZE_INSIDE),
        (-1, 1, NORMALIZE_INSIDE),
    ],
)
def test_images_outside_of_the_unit_interval_are_answered_with_the_likely_remedy(low, high, remedy):
    message = str(out_of_range(low, high, " in `x`"))
    assert message == f"Images must lie in [0, 1]. Received: min={low:.3g}, max={high:.3g} in `x`. {remedy}"


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0.0 s"), (59.94, "59.9 s"), (60, "1 min 0 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h 0 min"),
        (3600, "1 h 0 min"), (172_799, "47 h 59 min"), (172_800, "2.0 days"),
    ],
)  # fmt: skip
def test_times_are_written_as_people_say_them(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "value, text",
    [
        (8 / 255, "8/255"), (1 / 255, "1/255"), (254 / 255, "254/255"), (-8 / 255, "-8/255"),
        (1.0, "1"), (0.2, "0.2"), (0.0, "0"), (8 / 255 + 1e-8, "0.0313726"), (300 / 255, "1.17647"),
    ],
)  # fmt: skip
def test_multiples_of_a_pixel_are_written_as_fractions(value, text):
    assert format_number(value) == text
    assert parse_number(text) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("text", ["", "eight", "1/0", "1/2/3", "8/", "/255"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(InputError, match="Expected a number such as 0.031 or 8/255"):
        parse_number(text)


def test_digests_are_those_of_the_first_version_and_see_values_shapes_dtypes_and_order(tmp_path):
    """Literals, computed once: states and runs of earlier versions are recognized by them."""
    numbers, zeros = np.arange(3, dtype="int32"), np.zeros((2, 1), "float32")
    assert array_digest(numbers) == "12623073e2840e04"
    assert array_digest(numbers, zeros) == "7b37d031325f7db0"
    others = [
        array_digest(zeros, numbers),
        array_digest(numbers.astype("int64")),
        array_digest(numbers[None]),
        array_digest(numbers[::-1]),
        array_digest(numbers, zeros.T),
    ]
    assert len({"12623073e2840e04", "7b37d031325f7db0", *others}) == 2 + len(others)
    assert text_digest("pgd-20") == "d8760435de4ddb3c"
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    assert len({file_digest(first, second), file_digest(second, first), file_digest(first)}) == 3
