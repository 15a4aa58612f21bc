"""Adversarial examples: clean image, adversarial image, and their amplified difference."""

import math

import numpy as np

from athe_tf.drawing.markup import Markup, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.drawing.png import data_uri
from athe_tf.report.format import decimal
from athe_tf.report.reading import SavedEvaluation

MOST_EXAMPLES = 12
# Larger images are reduced to at most this many pixels per side: twelve rows of three stay below 2 MB.
MOST_PIXELS = 112


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` if no adversarial examples were kept."""
    examples = evaluation.examples
    if not examples or len(examples["clean"]) == 0:
        return None
    cards = [card(examples, position) for position in range(len(examples["clean"]))[:MOST_EXAMPLES]]
    intro = paragraph(
        "The clean and the adversarial image with the predicted class, and their difference: gray where "
        "nothing changed, and amplified so that the largest change is black or white."
    )
    return Section("Adversarial examples", "images", intro, tag("div", *cards, class_="examples"))


def card(examples: dict, position: int) -> Markup:
    """One example: three pictures and a line of text."""
    clean, adversarial = (np.asarray(examples[key][position], "float64") for key in ("clean", "adversarial"))
    difference, factor = amplified(clean, adversarial)
    names = ("attack", "label", "clean_prediction", "adversarial_prediction")
    attack, label, before, after = (str(examples[name][position]) for name in names)
    magnified = f"difference \N{MULTIPLICATION SIGN}{factor:.2g}"
    pictures = [
        (shrunk(clean), f"clean: {before}", f"Clean image of class {label}"),
        (shrunk(adversarial), f"{attack}: {after}", f"The same image after {attack}, classified as {after}"),
        (thinned(difference), magnified, "Their difference, amplified"),
    ]
    figures = [
        tag("figure", tag("img", src=data_uri(image), alt=alt), tag("figcaption", text))
        for image, text, alt in pictures
    ]
    heading = f"class {label}, perturbation {decimal(float(examples['norm'][position]))}"
    return tag("div", tag("h3", heading), tag("div", *figures, class_="triple"), class_="example")


def amplified(clean: np.ndarray, adversarial: np.ndarray) -> tuple[np.ndarray, float]:
    """The difference around mid-gray, and the factor that makes its largest value black or white."""
    difference = adversarial - clean
    largest = float(np.max(np.abs(difference)))
    if not (math.isfinite(largest) and largest > 0):
        return np.full_like(clean, 0.5), 1.0
    # From mid-gray, a change of 0.5 is black or white.
    factor = 0.5 / largest
    return 0.5 + factor * difference, factor


def shrunk(image: np.ndarray) -> np.ndarray:
    """An image of at most `MOST_PIXELS` per side: the means of square blocks."""
    block = _block(image)
    height, width = (size - size % block for size in image.shape[:2])
    blocks = image[:height, :width].reshape(height // block, block, width // block, block, -1)
    return blocks.mean(axis=(1, 3))


def thinned(image: np.ndarray) -> np.ndarray:
    """Every n-th pixel: means of a perturbation would fade it to gray."""
    block = _block(image)
    return image[::block, ::block]


def _block(image: np.ndarray) -> int:
    return max(1, math.ceil(max(image.shape[:2]) / MOST_PIXELS))
