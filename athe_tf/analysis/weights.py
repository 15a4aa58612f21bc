"""The mean loss of a batch as a function of a model's weights: values, gradients, Hessian-vector products."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator

import keras
import numpy as np
import scipy
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.utils.errors import check

# Relative accuracy of an eigenvalue.
TOLERANCE = 1e-4


class WeightLoss:
    """The mean cross-entropy over fixed images as a function of the trainable weights, in inference mode.

    Weights are handled as one flat vector. Images go through the model in batches, and only sums are kept,
    so that memory does not grow with their number.

    Args:
        model: A Keras model.
        x: Images `[N, H, W, C]`; adversarial ones stay fixed when the weights move.
        y: Labels `[N]`.
        batch_size: Images that go through the model at once.
    """

    def __init__(self, model: keras.Model, x, y, batch_size: int):
        self.model, self.x, self.y, self.batch_size = model, x, y, batch_size
        self.variables = [variable.value for variable in model.trainable_variables]
        self.sizes = [int(np.prod(variable.shape)) for variable in self.variables]
        self.size = sum(self.sizes)
        # Concrete shapes differ only in the last batch.
        self._value = tf.function(self._sum, autograph=False, reduce_retracing=True)
        self._slope = tf.function(self._gradient_of_sum, autograph=False, reduce_retracing=True)
        self._product = tf.function(self._product_of_sum, autograph=False, reduce_retracing=True)

    def on(self, x, y) -> "WeightLoss":
        """The same function of other images, compiled already."""
        other = copy.copy(self)
        other.x, other.y = x, y
        return other

    def value(self) -> float:
        """The mean loss."""
        return sum(float(self._value(x, y)) for x, y in self._batches()) / len(self.x)

    def gradient(self) -> np.ndarray:
        """The gradient of the mean loss, `[size]`, float64."""
        return self.flatten(self._added(self._slope))

    def gradients(self) -> list[np.ndarray]:
        """The gradient of the mean loss, one array per variable."""
        return [part.numpy() / len(self.x) for part in self._added(self._slope)]

    def hessian_product(self, vector: np.ndarray) -> np.ndarray:
        """The Hessian of the mean loss times a vector, `[size]`, float64."""
        parts = self.split(vector)
        return self.flatten(self._added(lambda x, y: self._product(x, y, parts)))

    def eigenpairs(self, top: int, seed: int, report: Callable) -> tuple[np.ndarray, np.ndarray]:
        """`top_eigenpairs` of the Hessian; `report` is called with the number of products so far."""
        products = itertools.count(1)

        def product(vector):
            report(next(products))
            return self.hessian_product(vector.reshape(-1))

        return top_eigenpairs(product, self.size, top, seed)

    def split(self, vector: np.ndarray) -> list[tf.Tensor]:
        """A flat vector as tensors of the shapes of the variables."""
        pieces = np.split(np.asarray(vector), np.cumsum(self.sizes)[:-1])
        return [
            tf.constant(piece.reshape(variable.shape), variable.dtype)
            for piece, variable in zip(pieces, self.variables, strict=True)
        ]

    def flatten(self, sums) -> np.ndarray:
        """Sums over images as one flat mean."""
        return np.concatenate([part.numpy().astype("float64").ravel() for part in sums]) / len(self.x)

    def filter_normalized(self, seed: int) -> np.ndarray:
        """A random direction whose filters are as long as those of the model (Li et al., 2018).

        A filter is what leads to one output: all but the last axis of a kernel. Vectors, such as biases and
        the weights of batch normalization, do not move.

        Reference: https://arxiv.org/abs/1712.09913
        """
        rng, parts = np.random.default_rng(seed), []
        for variable in self.variables:
            weights = variable.numpy().astype("float64")
            if weights.ndim < 2:
                parts.append(np.zeros(weights.size))
                continue
            noise, axes = rng.normal(size=weights.shape), tuple(range(weights.ndim - 1))
            lengths = [np.sqrt((v**2).sum(axis=axes, keepdims=True)) for v in (weights, noise)]
            parts.append((noise * lengths[0] / np.maximum(lengths[1], 1e-12)).ravel())
        return np.concatenate(parts)

    @contextlib.contextmanager
    def moved(self, vector: np.ndarray) -> Iterator[None]:
        """A context in which a vector is added to the weights; they are restored exactly."""
        before = [variable.numpy() for variable in self.variables]
        try:
            for variable, start, step in zip(self.variables, before, self.split(vector), strict=True):
                variable.assign(start + step.numpy())
            yield
        finally:
            for variable, start in zip(self.variables, before, strict=True):
                variable.assign(start)

    def _batches(self):
        for start in range(0, len(self.x), self.batch_size):
            part = slice(start, start + self.batch_size)
            yield tf.convert_to_tensor(self.x[part]), tf.convert_to_tensor(self.y[part])

    def _added(self, function):
        total = None
        for x, y in self._batches():
            parts = function(x, y)
            total = parts if total is None else [a + b for a, b in zip(total, parts, strict=True)]
        return total

    def _sum(self, x, y):
        return tf.reduce_sum(losses.ce(tf.cast(self.model(x, training=False), x.dtype), y))

    def _gradient_of_sum(self, x, y):
        with tf.GradientTape() as tape:
            loss = self._sum(x, y)
        return tape.gradient(loss, self.variables, unconnected_gradients="zero")

    def _product_of_sum(self, x, y, vector):
        with tf.GradientTape() as outer:
            gradients = self._gradient_of_sum(x, y)
            along = tf.add_n([tf.reduce_sum(g * v) for g, v in zip(gradients, vector, strict=True)])
        return outer.gradient(along, self.variables, unconnected_gradients="zero")


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
