"""The largest eigenvalues of the Hessian of the adversarial loss."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of
from athe_tf.utils.errors import check
from athe_tf.utils.options import option

if TYPE_CHECKING:
    from athe_tf.analysis.weights import WeightLoss

# Relative accuracy of an eigenvalue.
TOLERANCE = 1e-4


def top_eigenpairs(
    product: Callable[[np.ndarray], np.ndarray], size: int, top: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a symmetric matrix, by Lanczos' method.

    Largest means the most positive: a negative eigenvalue of larger magnitude is not among them.

    Example:

    >>> values, vectors = top_eigenpairs(lambda v: np.arange(50) * v, 50, 2)
    >>> values.round(3).tolist()
    [49.0, 48.0]

    Args:
        product: From a vector to the matrix times the vector.
        size: Length of the vectors.
        top: Number of eigenvalues, smaller than `size`.
        seed: Seed of the first vector. Defaults to 0.

    Returns:
        The eigenvalues, largest first, and their eigenvectors as columns.
    """
    check(top < size, f"There are {size} weights. Expected `top` below that. Received: top={top}.")
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(seed).normal(size=size)
    values, vectors = scipy.sparse.linalg.eigsh(operator, k=top, which="LA", v0=start, tol=TOLERANCE)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


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
        values, _ = eigenpairs(subject, loss, top)
        return cls(**subject.facts(), eigenvalues=values, loss=loss.value())

    @property
    def key_numbers(self):
        return {"largest eigenvalue": float(self.eigenvalues[0]), "loss": self.loss}

    def draw(self, axes, series, results):
        (ax,) = axes
        drawing.bars(ax, self.eigenvalues, series, len(results), self.model)
        drawing.finish(ax, "rank of the eigenvalue", "eigenvalue\n(nats per squared weight)")
        drawing.category_ticks(ax, [str(i + 1) for i in range(len(self.eigenvalues))])


def eigenpairs(subject: Subject, loss: "WeightLoss", top: int):
    """The largest eigenvalues and their eigenvectors; progress counts products, whose number is unknown."""
    products = 0

    def product(vector):
        nonlocal products
        products += 1
        subject.report(products)
        return loss.hessian_product(vector.reshape(-1))

    return top_eigenpairs(product, loss.size, top, subject.options.seed)


hessian = function_of(Hessian.compute)
