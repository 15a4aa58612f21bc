"""What adversarial perturbations look like: Fig. 2 right of the HE paper."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult, argument
from athe_tf.analysis.subject import Subject, function_of

COLUMNS = ("clean", "attacked", "change")
# Pixels of white between two images.
GAP = 2


class Perturbations(AnalysisResult):
    """Images with their perturbations; made by `perturbations`.

    Example:

    >>> athe_tf.analysis.perturbations(model, (x, y), attack, count=2).clean.shape
    (2, 8, 8, 1)

    Args:
        clean: Images `[n, H, W, C]` in [0, 1].
        adversarial: The same after the attack.
        labels: Their labels.
        predicted: The labels that the model gives the adversarial images.
        class_names: The names of the classes.
    """

    analysis = "perturbations"
    summary = "clean and adversarial images with their difference (HE, Fig. 2 right)"
    shared = False
    what_to_see = (
        "Rows: images, with their label and the one after the attack. Right column: the perturbation, "
        "scaled to the range of the picture. Perturbations of robust models follow the object; those of "
        "other models look like noise."
    )
    size = (3.6, 4.6)

    clean: np.ndarray
    adversarial: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    class_names: tuple[str, ...]

    @classmethod
    def compute(
        cls,
        subject: Subject,
        *,
        count: int = argument(5, "Number of images, instead of `max_examples`.", ge=1),
    ) -> "Perturbations":
        """Attacks a few images and shows what was added to them."""
        adversarial = subject.all_adversarial()
        logits = subject.predicted(adversarial)
        return cls(
            **subject.facts(),
            clean=subject.x,
            adversarial=adversarial,
            labels=subject.y,
            predicted=logits.argmax(axis=1),
            class_names=subject.class_names(logits.shape[1]),
        )

    @classmethod
    def used_images(cls, own, most):
        return own.count

    @property
    def normalized(self) -> np.ndarray:
        """Perturbations, each scaled so that zero is gray and the largest change is black or white."""
        delta = self.adversarial - self.clean
        largest = np.abs(delta).max(axis=(1, 2, 3), keepdims=True)
        return 0.5 + 0.5 * delta / np.maximum(largest, 1e-12)

    @property
    def key_numbers(self):
        return {"misclassified after the attack": float((self.predicted != self.labels).sum())}

    def draw(self, axes, series, results):
        (ax,) = axes
        rows = [_row(images) for images in zip(self.clean, self.adversarial, self.normalized, strict=True)]
        mosaic = np.concatenate(rows)
        ax.imshow(mosaic if mosaic.shape[-1] == 3 else mosaic[..., 0], cmap="gray", vmin=0, vmax=1,
                  interpolation="nearest")  # fmt: skip
        height, width = (side + GAP for side in self.clean.shape[1:3])
        ax.set_xticks([(i + 0.5) * width for i in range(3)], COLUMNS, fontsize=drawing.FONT_SIZE - 2)
        ax.xaxis.tick_top()
        names = np.array(self.class_names)
        texts = [f"{a}\nto {b}" for a, b in zip(names[self.labels], names[self.predicted], strict=True)]
        ax.set_yticks([(i + 0.5) * height for i in range(len(rows))], texts, fontsize=drawing.FONT_SIZE - 2)
        ax.tick_params(length=0)
        for side in ax.spines.values():
            side.set_visible(False)
        ax.set_ylabel("class before and after the attack", fontsize=drawing.FONT_SIZE - 1)
        ax.set_title(self.model, fontsize=drawing.FONT_SIZE)


def _row(images) -> np.ndarray:
    """Images side by side, with white between and below."""
    padded = [np.pad(image, ((0, GAP), (0, GAP), (0, 0)), constant_values=1.0) for image in images]
    return np.concatenate(padded, axis=1)


perturbations = function_of(Perturbations.compute)
