"""Where an attack goes with and without normalized features: Fig. 1 of the HE paper."""

import dataclasses

import numpy as np
import tensorflow as tf

from athe_tf.analysis import drawing
from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject
from athe_tf.attacks.engine.gradients import inner_product, input_gradient
from athe_tf.attacks.losses import MASKED
from athe_tf.threat import flat, threat_model

#: The point and the difference of class weights of the two-dimensional demonstration.
POINT = (2.0, 1.0)
WEIGHTS = (0.35, 1.0)
NORMS = {"l1": "1", "l2": "2", "linf": "infinity"}


@dataclasses.dataclass(frozen=True)
class PlaneDirections:
    """Directions of both attacks in the plane, where features are the input itself.

    Example:

    >>> athe_tf.analysis.plane_directions((2.0, 1.0), (1.0, 1.0)).plain["linf"].tolist()
    [-1.0, -1.0]

    Args:
        point: The input x.
        weights: `W_y - W_y*`; the decision boundary is where its cosine with x is zero.
        plain: For each norm, `-U_p(grad(||z|| cos))`, Eq. 11.
        normalized: For each norm, `-U_p(grad(cos))`, Eq. 13.
    """

    point: np.ndarray
    weights: np.ndarray
    plain: dict[str, np.ndarray]
    normalized: dict[str, np.ndarray]


def plane_directions(point=POINT, weights=WEIGHTS) -> PlaneDirections:
    """Computes the directions of Fig. 1 in the plane, for p = 1, 2 and infinity.

    Example:

    >>> sorted(athe_tf.analysis.plane_directions().normalized)
    ['l1', 'l2', 'linf']

    Args:
        point: The input, not zero.
        weights: The difference of class weights, not zero.
    """
    x = tf.reshape(tf.constant(point, tf.float64), [1, 1, 1, 2])
    unit = tf.reshape(tf.math.l2_normalize(tf.constant(weights, tf.float64)), [1, 1, 1, 2])
    _, of_product = input_gradient(lambda z: inner_product(z, unit), x)
    _, of_cosine = input_gradient(lambda z: inner_product(z, unit) / tf.norm(flat(z), axis=1), x)

    def steps(gradient):
        return {norm: -threat_model(norm, 1.0).ascent(gradient).numpy().reshape(2) for norm in NORMS}

    return PlaneDirections(np.array(point), np.array(weights), steps(of_product), steps(of_cosine))


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class FNDirection(AnalysisResult):
    """How the gradients of feature length and cosine are related; made by `fn_direction`.

    Example:

    >>> athe_tf.analysis.fn_direction(model, (x, y), attack).length_and_cosine.shape
    (8,)

    Args:
        length_and_cosine: For each image, the cosine between `grad ||z||` and `grad cos`.
        product_and_cosine: For each image, the cosine between `grad(||z|| cos)`, which a plain attack
            follows, and `grad cos`, which an attack with FN follows.
    """

    analysis = "fn_direction"
    panels = 2
    what_to_see = (
        "Left: the plane, where features are the input; with FN (dashed) steps are turned towards the "
        "decision boundary (grey line). p is the norm of the attack. Right: the cosine between the two step "
        "directions in the real model; values below 1 are steps that partly only change the length of the "
        "features."
    )
    size = (5.2, 4.2)

    length_and_cosine: np.ndarray
    product_and_cosine: np.ndarray

    @property
    def key_numbers(self):
        return {
            "mean cosine(grad length, grad cos)": float(self.length_and_cosine.mean()),
            "mean cosine(grad (length cos), grad cos)": float(self.product_and_cosine.mean()),
        }

    def draw(self, axes, series, count):
        left, right = axes
        if series == 0:
            _draw_plane(left, plane_directions())
        bins = np.linspace(-1, 1, 41)
        for values, name, dash in (
            (self.length_and_cosine, "length and cos", (0, (4, 2))),
            (self.product_and_cosine, "length * cos and cos", "-"),
        ):
            right.hist(values, bins, histtype="step", linewidth=drawing.hist_width(series), linestyle=dash,
                       color=drawing.color(series), label=f"{self.model}: {name}")  # fmt: skip
        drawing.finish(right, "cosine between the two gradients", "number of images")


def _draw_plane(ax, directions: PlaneDirections) -> None:
    across = np.array([directions.weights[1], -directions.weights[0]]) / np.linalg.norm(directions.weights)
    ax.plot(*zip(-1 * across, 4.5 * across, strict=True), color="#848f9a", linewidth=3)
    x, y = directions.point
    for series, norm in enumerate(NORMS):
        for found, dash in ((directions.plain, "-"), (directions.normalized, (0, (3, 2)))):
            end = directions.point + found[norm]
            arrow = {"arrowstyle": "->", "color": drawing.color(series), "linewidth": 2, "linestyle": dash}
            ax.annotate("", end, (x, y), arrowprops=arrow)
            label = f"p = {NORMS[norm]}{', FN' if dash != '-' else ''}"
            ax.plot([], [], color=drawing.color(series), linestyle=dash, linewidth=2, label=label)
    ax.plot(x, y, "o", color="#1a2128")
    ax.set_xlim(0, 4.6)
    ax.set_ylim(-1.6, 2.0)
    ax.set_aspect("equal")
    drawing.finish(ax, "first input (pixels)", "second input (pixels)")


def fn_direction(model, data, attack=None, options: AnalysisOptions | None = None) -> FNDirection:
    """Measures how the gradients of feature length and cosine are related (Fig. 1, Eq. 11 and 13).

    z are the features, and the cosine is that of the angle between z and `W_y - W_y*`, where y* is the
    class with the largest wrong logit.

    Example:

    >>> result = athe_tf.analysis.fn_direction(model, (x, y), attack)

    Args:
        model: A Keras model that ends in a `Dense` or a `CosineDense`.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: Recorded only; gradients are taken at the clean images.
        options: Number of images and the like.

    Reference:
        Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, section 3.3.
    """
    subject = Subject(model, data, attack, options)
    weights = subject.class_weights("fn_direction")

    @tf.function(autograph=False, reduce_retracing=True)
    def cosines(x, y):
        logits = subject.victim.logits(x)
        wrong = tf.argmax(logits + tf.one_hot(y, tf.shape(logits)[1], MASKED, 0.0), axis=1)
        columns = tf.transpose(weights)
        towards = tf.math.l2_normalize(tf.gather(columns, y) - tf.gather(columns, wrong), axis=1)

        def product(images):
            return tf.reduce_sum(subject.victim.features(images) * towards, axis=1)

        def length(images):
            return tf.norm(subject.victim.features(images), axis=1)

        _, of_product = input_gradient(product, x)
        _, of_length = input_gradient(length, x)
        _, of_cosine = input_gradient(lambda images: product(images) / length(images), x)
        return _cosine(of_length, of_cosine), _cosine(of_product, of_cosine)

    found = [cosines(x, y) for x, y, _ in subject.batches()]
    lengths, products = (
        np.concatenate([part.numpy() for part in parts]) for parts in zip(*found, strict=True)
    )
    return FNDirection(**subject.facts(), length_and_cosine=lengths, product_and_cosine=products)


def _cosine(a, b):
    a, b = flat(a), flat(b)
    lengths = tf.norm(a, axis=1) * tf.norm(b, axis=1)
    return tf.reduce_sum(a * b, axis=1) / tf.maximum(lengths, 1e-20)
