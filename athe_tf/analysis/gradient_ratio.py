"""Whether training listens to adversarial images: Fig. 3 of the HE paper."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of


class GradientRatio(AnalysisResult):
    """The ratio of gradient norms, adversarial over clean, for each weight; made by `gradient_ratio`.

    Example:

    >>> len(athe_tf.analysis.gradient_ratio(model, (x, y), attack).ratios) == len(model.trainable_variables)
    True

    Args:
        layers: Names of the weights, from the input to the output.
        kinds: What each is: `"kernel"`, `"gamma"`, `"beta"`, ...
        ratios: The mean ratio over batches for each.
    """

    analysis = "gradient_ratio"
    summary = "gradient norms of each kernel, adversarial over clean (HE, Fig. 3)"
    needs = "weights"
    what_to_see = (
        "Bars above 1 (the line): adversarial images move these weights more than clean images do. Higher "
        "bars mean that training attends more to adversarial images."
    )
    size = (7.0, 3.8)

    layers: tuple[str, ...]
    kinds: tuple[str, ...]
    ratios: np.ndarray

    @classmethod
    def compute(cls, subject: Subject) -> "GradientRatio":
        """Measures `E(||grad_w L(x*)|| / ||grad_w L(x)||)` for each weight w, over batches (Fig. 3).

        L is the mean cross-entropy of a batch on the model's logits, without the margin of training, and
        batch normalization is in inference mode.

        Reference:
            Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, Fig. 3.
        """
        loss = subject.weight_loss(subject.x)
        ratios = []
        for x, y, ids in subject.batches():
            clean, adversarial = (
                np.array([np.linalg.norm(part) for part in loss.on(images, y).gradients()])
                for images in (x, subject.adversarial(x, y, ids))
            )
            ratios.append(adversarial / np.maximum(clean, np.finfo(np.float32).tiny))
        paths = [variable.path.rpartition("/") for variable in subject.model.trainable_variables]
        return cls(
            **subject.facts(batch_size=subject.options.batch_size),
            layers=tuple(layer for layer, _, _ in paths),
            kinds=tuple(kind for _, _, kind in paths),
            ratios=np.mean(ratios, axis=0),
        )

    @property
    def kernels(self) -> dict[str, float]:
        """From the layer of each kernel to its ratio: what is drawn."""
        parts = zip(self.layers, self.kinds, self.ratios, strict=True)
        return {layer: float(ratio) for layer, kind, ratio in parts if kind == "kernel"}

    @property
    def key_numbers(self):
        return {"mean ratio of kernels": float(np.mean(list(self.kernels.values())))}

    def draw(self, axes, series, results):
        (ax,) = axes
        drawing.bars(ax, list(self.kernels.values()), series, len(results), self.model)
        ax.axhline(1.0, color=drawing.INK, linewidth=1.2)
        drawing.finish(ax, "kernel, from input to output", "gradient norm ratio,\nadversarial / clean")
        drawing.category_ticks(ax, list(self.kernels))


gradient_ratio = function_of(GradientRatio.compute)
