"""Warnings of a result: texts with ids, what each id means, and where it is explained."""

import re

#: The id of a warning that has no other: one of an older format, or a user's own text.
UNNAMED = "unnamed"
#: Every id that athe_tf gives, and what it means. An id stays the same when the text of its warning changes.
WARNINGS = {
    "batch-dependent": "The logits of an image depend on the other images in its batch.",
    "cosine-logits": "The logits are cosines without a scale, on which cross-entropy is a weak objective.",
    "fewer-classes": "The data set has fewer classes than the model.",
    "input-range": "The model seems to expect other inputs than images in [0, 1].",
    "log-probabilities": "The model ends with a softmax, and the logarithms of its outputs were attacked.",
    "misleading-gradients": "Random search came closer than gradient attacks, which the gradients mislead.",
    "nan-logits": "The model gives logits that are not finite; such images count as misclassified.",
    "nonfinite-gradients": "Gradients were not finite, so that attacks did not move.",
    "masked-gradients": "A converted file seems more robust than the model that it was made of.",
    "majority-class": "The model predicts one class for nearly all images, whatever they show.",
    "no-parent": "A file without gradients was attacked without the model that it was made of.",
    "probabilities": "The outputs look like probabilities, and attacks expect logits.",
    "randomized-model": "The logits change from pass to pass, so an image may survive by luck.",
    "radius-not-covered": "No attack covered all images at the radius and in the norm of the evaluation.",
    "saturated-margins": "Margins are so large that cross-entropy and its gradient are zero in float32.",
    "sigmoid-outputs": "The outputs look like those of a sigmoid per class, and attacks expect logits.",
    "several-devices": "Attacks were computed on devices that round differently.",
    "single-shard": "The numbers cover only one shard of the images.",
    "training-norm": "The model was trained in another norm than the one of the evaluation.",
    "zero-gradients": "Gradients were zero, so that attacks did not move.",
}
#: The warnings that a verdict repeats, because without them it would be read as true.
IN_VERDICT = (
    "majority-class", "misleading-gradients", "nan-logits", "nonfinite-gradients", "radius-not-covered",
    "zero-gradients",
)  # fmt: skip


class Notice(str):
    """A warning: a text with an id that stays the same when the text changes.

    Example:

    >>> warning = Notice("The logits of 3 images change from pass to pass.", id="randomized-model")
    >>> warning.id, warning.endswith("pass.")
    ('randomized-model', True)

    Args:
        text: What a reader should know.
        id: A short name for programs; athe_tf itself gives those in `WARNINGS`.
    """

    id: str

    def __new__(cls, text: str, id: str = UNNAMED):
        notice = super().__new__(cls, text)
        notice.id = id
        return notice


def explained(text: str, name: str) -> str:
    """A text, and where a reader finds what to do about the warning or sanity check of this name.

    Example:

    >>> explained("Some gradients are zero.", "zero-gradients")
    'Some gradients are zero. (docs/faq.md#zero-gradients)'
    """
    anchor = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
    return text if name == UNNAMED else f"{text} (docs/faq.md#{anchor})"


def warning_texts(warnings) -> list[str]:
    """Warnings as a reader sees them."""
    return [explained(str(one), getattr(one, "id", UNNAMED)) for one in warnings]
