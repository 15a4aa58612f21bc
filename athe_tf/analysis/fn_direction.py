"""Where an attack goes with and without normalized features: Fig. 1 of the HE paper."""

import dataclasses

import numpy as np

from athe_tf.analysis import drawing
from athe_tf.analysis.result import AnalysisResult
from athe_tf.analysis.subject import Subject, function_of

#: The point and the difference of class weights of the two-dimensional demonstration.
POINT = (2.0, 1.0)
WEIGHTS = (0.35, 1.0)
NORMS = {"l1": "1", "l2": "2", "linf": "\N{INFINITY}"}
# How far behind the tip of an arrow its text is.
TIP = 0.22


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
    import tensorflow as tf

    from athe_tf.attacks.engine.gradients import inner_product, input_gradient
    from athe_tf.threat import flat, threat_model

    x = tf.reshape(tf.constant(point, tf.float64), [1, 1, 1, 2])
    unit = tf.reshape(tf.math.l2_normalize(tf.constant(weights, tf.float64)), [1, 1, 1, 2])
    _, of_product = input_gradient(lambda z: inner_product(z, unit), x)
    _, of_cosine = input_gradient(lambda z: inner_product(z, unit) / tf.norm(flat(z), axis=1), x)

    def steps(gradient):
        return {norm: -threat_model(norm, 1.0).ascent(gradient).numpy().reshape(2) for norm in NORMS}

    return PlaneDirections(np.array(point), np.array(weights), steps(of_product), steps(of_cosine))


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
    summary = "directions of attacks with and without normalized features (HE, Fig. 1)"
    needs = "features"
    panels = 2
    what_to_see = (
        "Left: a demonstration in the plane, where features are the input; with FN (dashed), the steps of "
        "attacks in the p-norm (p at the tips) are turned toward the decision boundary (gray line). Right: "
        "in the model, the cosine of the step with FN and the plain step (solid; below 1, the plain step is "
        "partly spent on the length of the features), and of the step with FN and the gradient of that "
        "length (dashed)."
    )
    size = (5.2, 4.2)

    length_and_cosine: np.ndarray
    product_and_cosine: np.ndarray

    @classmethod
    def compute(cls, subject: Subject) -> "FNDirection":
        """Measures how the gradients of feature length and cosine are related (Fig. 1, Eq. 11 and 13).

        z are the features, and the cosine is of the angle between z and `W_y - W_y*`, where y* is the
        class with the largest wrong logit. Gradients are taken at the clean images; the attack is not used.

        Reference:
            Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, section
            3.3.
        """
        import tensorflow as tf

        from athe_tf.attacks.engine.gradients import input_gradient
        from athe_tf.attacks.losses import MASKED
        from athe_tf.threat import flat

        weights = subject.class_weights()

        def cosine(a, b):
            a, b = flat(a), flat(b)
            lengths = tf.norm(a, axis=1) * tf.norm(b, axis=1)
            return tf.reduce_sum(a * b, axis=1) / tf.maximum(lengths, 1e-20)

        @tf.function(autograph=False, reduce_retracing=True)
        def cosines(x, y):
            logits = subject.victim.logits(x)
            wrong = tf.argmax(logits + tf.one_hot(y, tf.shape(logits)[1], MASKED, 0.0), axis=1)
            columns = tf.transpose(weights)
            toward = tf.math.l2_normalize(tf.gather(columns, y) - tf.gather(columns, wrong), axis=1)

            def product(images):
                return tf.reduce_sum(subject.victim.features(images) * toward, axis=1)

            def length(images):
                return tf.norm(subject.victim.features(images), axis=1)

            _, of_product = input_gradient(product, x)
            _, of_length = input_gradient(length, x)
            _, of_cosine = input_gradient(lambda images: product(images) / length(images), x)
            return cosine(of_length, of_cosine), cosine(of_product, of_cosine)

        found = [cosines(x, y) for x, y, _ in subject.batches()]
        lengths, products = (
            np.concatenate([part.numpy() for part in parts]) for parts in zip(*found, strict=True)
        )
        facts = subject.facts(attack="none, gradients at the clean images")
        return cls(**facts, length_and_cosine=lengths, product_and_cosine=products)

    @property
    def key_numbers(self):
        return {
            "mean cosine with the plain step": float(self.product_and_cosine.mean()),
            "with the gradient of the length": float(self.length_and_cosine.mean()),
        }

    def draw(self, axes, series, results):
        left, right = axes
        if series == 0:
            _draw_plane(left, plane_directions())
        bins = np.linspace(-1, 1, 41)
        drawing.histogram(right, self.product_and_cosine, bins, series, f"{self.model}: plain step")
        drawing.histogram(right, self.length_and_cosine, bins, series, f"{self.model}: length", dashed=True)
        right.set_xticks([-1, -0.5, 0, 0.5, 1])
        drawing.finish(right, "cosine with the step with FN", "number of images")


def _draw_plane(ax, directions: PlaneDirections) -> None:
    across = np.array([directions.weights[1], -directions.weights[0]]) / np.linalg.norm(directions.weights)
    ax.plot(*zip(-1 * across, 4.5 * across, strict=True), color="#848f9a", linewidth=3)
    for found, dash, name in (
        (directions.plain, "-", "plain step"),
        (directions.normalized, (0, (3, 2)), "step with FN"),
    ):
        for series, norm in enumerate(NORMS):
            end = directions.point + found[norm]
            arrow = {"arrowstyle": "->", "color": drawing.color(series), "linewidth": 2, "linestyle": dash}
            ax.annotate("", end, directions.point, arrowprops=arrow)
            ax.text(*(end + TIP * found[norm]), NORMS[norm], ha="center", va="center", fontsize=drawing.SMALL)
        ax.plot([], [], color=drawing.INK, linestyle=dash, linewidth=2, label=name)
    ax.plot(*directions.point, "o", color=drawing.INK)
    ax.set_xlim(0, 4.6)
    ax.set_ylim(-1.6, 2.0)
    ax.set_aspect("equal")
    drawing.finish(ax, "first input (pixels)", "second input (pixels)")


fn_direction = function_of(FNDirection.compute)
