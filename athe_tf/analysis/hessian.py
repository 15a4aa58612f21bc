"""The largest eigenvalues of the Hessian of the adversarial loss."""

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.options import option


class Hessian(AnalysisResult):
    """The largest eigenvalues of the Hessian; made by `hessian`.

    Example:

    >>> athe_tf.analysis.hessian(model, (x, y), attack, top=1).eigenvalues.shape
    (1,)

    Args:
        eigenvalues: The largest, in descending order.
        loss: The mean adversarial loss.
    """

    analysis = "hessian"
    summary = "largest eigenvalues of the adversarial loss in the weights (PAS)"
    needs = "weights"
    what_to_see = (
        "Eigenvalues of the Hessian of the adversarial loss with respect to the weights, adversarial images "
        "held fixed. Higher bars: a more curved loss, on which large learning rates diverge."
    )

    eigenvalues: np.ndarray
    loss: float

    @classmethod
    def compute(
        cls, subject: Subject, *, top: int = option(3, "Number of eigenvalues of hessian.", gt=0)
    ) -> "Hessian":
        """Computes the largest eigenvalues of the Hessian of the adversarial loss in the weights.

        Largest means the most positive, the directions in which the loss is most curved upwards. The power
        iteration of the reference finds those of largest magnitude; near a minimum, both are the same.
        Adversarial images are made once and stay fixed; batch normalization is in inference mode. Lanczos'
        method needs some 20 to 60 Hessian-vector products, each about as long as two gradients of all images.

        Reference:
            Liu et al., "On the Loss Landscape of Adversarial Training", NeurIPS 2020.
        """
        loss = subject.weight_loss(subject.all_adversarial())
        values, _ = loss.eigenpairs(top, subject.options.seed, subject.report)
        return cls(**subject.facts(), eigenvalues=values, loss=loss.value())

    @property
    def key_numbers(self):
        return {"largest eigenvalue": float(self.eigenvalues[0]), "loss": self.loss}

    def draw(self, axes, series, results):
        (ax,) = axes
        drawing.bars(ax, self.eigenvalues, series, len(results), self.model)
        drawing.finish(ax, "rank of the eigenvalue", "eigenvalue\n(nats per squared weight)")
        drawing.category_ticks(ax, [str(i + 1) for i in range(len(self.eigenvalues))])


hessian = function_of(Hessian.compute)
