"""Images that fell: clean, adversarial, and the difference made visible."""

import math

import numpy as np

from athe_tf.report.format import decimal
from athe_tf.report.markup import Markup, join, tag
from athe_tf.report.png import data_uri
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, paragraph

MOST_EXAMPLES = 12
# Larger images are reduced to at most this many pixels a side: twelve rows of three stay below 2 MB.
MOST_PIXELS = 112


def section(evaluation: Evaluation) -> Section | None:
    """Where the evaluation kept images."""
    examples = evaluation.examples
    if not examples or len(examples.get("clean", ())) == 0:
        return None
    shown = min(len(examples["clean"]), MOST_EXAMPLES)
    cards = [card(examples, position) for position in range(shown)]
    intro = paragraph(
        "Each time: the clean image and the adversarial one, with the class that the model takes them for, "
        "and their difference, grey where nothing changed and amplified until the largest change is black or "
        "white."
    )
    return Section("Images that fell", "images", join([intro, tag("div", join(cards), class_="examples")]))


def card(examples: dict, position: int) -> Markup:
    """One example: three pictures and a line of text."""
    clean, adversarial = (np.asarray(examples[key][position], "float64") for key in ("clean", "adversarial"))
    difference, factor = amplified(clean, adversarial)
    attack = _text(examples, "attack", position) or "attack"
    before, after = (_text(examples, f"{kind}_prediction", position) for kind in ("clean", "adversarial"))
    label = _text(examples, "label", position)
    pictures = [
        (shrunk(clean), f"clean: {before}" if before else "clean", f"Clean image of class {label}"),
        (
            shrunk(adversarial),
            f"{attack}: {after}" if after else attack,
            f"The same image after {attack}, taken for class {after}",
        ),
        (
            thinned(difference),
            f"difference \N{MULTIPLICATION SIGN}{factor:.2g}",
            "Their difference, amplified",
        ),
    ]
    figures = [
        tag("figure", tag("img", src=data_uri(image), alt=alt), tag("figcaption", text))
        for image, text, alt in pictures
    ]
    heading = f"class {label}" if label else f"image {position + 1}"
    if "norm" in examples:
        heading += f", moved by {decimal(float(examples['norm'][position]))}"
    return tag("div", tag("h3", heading), tag("div", join(figures), class_="triple"), class_="example")


def amplified(clean: np.ndarray, adversarial: np.ndarray) -> tuple[np.ndarray, float]:
    """The difference around mid-grey, and the factor that brings its largest value to black or white."""
    difference = adversarial - clean
    largest = float(np.max(np.abs(difference)))
    if not (math.isfinite(largest) and largest > 0):
        return np.full_like(clean, 0.5), 1.0
    # Mid-grey is half way: a change of 0.5 is black or white.
    factor = 0.5 / largest
    return 0.5 + factor * difference, factor


def shrunk(image: np.ndarray) -> np.ndarray:
    """An image of at most `MOST_PIXELS` a side: the means of square blocks."""
    block = _block(image)
    height, width = (size - size % block for size in image.shape[:2])
    blocks = image[:height, :width].reshape(height // block, block, width // block, block, -1)
    return blocks.mean(axis=(1, 3))


def thinned(image: np.ndarray) -> np.ndarray:
    """Every so-many-th pixel: means of a perturbation would fade it to grey."""
    block = _block(image)
    return image[::block, ::block]


def _block(image: np.ndarray) -> int:
    return max(1, math.ceil(max(image.shape[:2]) / MOST_PIXELS))


def _text(examples: dict, key: str, position: int) -> str:
    return str(examples[key][position]) if key in examples else ""
