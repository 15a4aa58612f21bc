"""The one rule for the values of images, [0, 1], and what to do about others."""

from athe_tf.utils.errors import InputError

RULE = "Images must lie in [0, 1]. Received: "
DIVIDE = (
    "Divide them by 255, for example with dataset.map(lambda x, y: (x / 255.0, y)); in front of a model that "
    "expects 0..255, put keras.layers.Rescaling(255.0)."
)
NORMALIZE_INSIDE = "Put the normalization inside the model: athe_tf.models does it for you."


def out_of_range(low: float, high: float, where: str = "") -> InputError:
    """The error for images with other values: their range, and what was probably meant.

    Args:
        low: The smallest value.
        high: The largest value.
        where: Added to the range, such as `" in `x_train`"`.
    """
    remedy = DIVIDE if like_pixels(low, high) else NORMALIZE_INSIDE
    return InputError(f"{RULE}min={low:.3g}, max={high:.3g}{where}. {remedy}")


def like_pixels(low: float, high: float) -> bool:
    """Whether the range is that of pixels of 0..255, as decoders of image files return them."""
    return low >= 0 and 1 < high <= 255
