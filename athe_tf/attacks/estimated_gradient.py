"""NES and SPSA: gradient ascent with a gradient that is estimated from queries."""

import tensorflow as tf

from athe_tf.attacks.black_box import BlackBoxAttack
from athe_tf.attacks.engine.arguments import check_at_least, check_positive
from athe_tf.attacks.engine.loop import shrinking_loop
from athe_tf.attacks.engine.results import Costs
from athe_tf.models.victim import Victim
from athe_tf.threat import per_example
from athe_tf.utils import rng


class NES(BlackBoxAttack):
    """Natural evolution strategies (Ilyas et al., 2018), as in Table 8 of the hypersphere-embedding paper.

    Every iteration draws `samples` directions u and estimates the gradient of the margin J by

        g = 1/q sum_i (J(x + sigma u_i) - J(x - sigma u_i)) / (2 sigma) u_i        (Eq. 23),

    steps along the direction of steepest ascent, as BIM does, and tests where it arrived. It starts at the
    image itself and ends at the first success. An iteration costs 2q + 1 queries.

    The probes x +- sigma u are neither clipped nor projected, as in the references.

    Example:

    >>> result = athe_tf.attacks.get("nes-50", epsilon=0.031, step_size=0.003).run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"` (default) or `"l2"`.
        steps: Number of iterations. Defaults to 20; the paper has 20, 50 and 80.
        step_size: Length of a step in the norm. Defaults to `epsilon / 4`.
        samples: The q of the paper, directions per iteration. Defaults to 128.
        sigma: Length scale of the finite differences. Defaults to 0.001.
        chunk: How many probes go through the model at once, for any batch size. Defaults to 256.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/1804.08598
    """

    name = "nes"
    norms = ("linf", "l2")
    draw = staticmethod(rng.normal)

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int = 20,
        step_size=None,
        samples: int = 128,
        sigma: float = 0.001,
        chunk: int = 256,
        targeted: bool = False,
    ):
        super().__init__(epsilon, norm, targeted)
        check_at_least(1, steps=steps, samples=samples)
        check_at_least(2, chunk=chunk)
        check_positive(sigma=sigma)
        self.steps = int(steps)
        self.step_size = self.step_length(step_size, 4)
        self.samples, self.sigma, self.chunk = int(samples), sigma, int(chunk)

    def costs(self, victim: Victim) -> Costs:
        return Costs(self.steps, forward=2 * self.samples + 1, after=0)

    def search(self, victim: Victim, x, y, ids, seed):
        def body(i, state, constants):
            x_adv, _ = state
            images, labels, names = constants
            gradient = self.estimate(victim, x_adv, labels, names, rng.fold(seed, i))
            x_adv = self.threat.project(images, x_adv + self.step_size * self.threat.ascent(gradient))
            _, wrong = self.margin_and_success(victim, x_adv, labels)
            return [x_adv, wrong], wrong

        nothing_yet = tf.zeros(tf.shape(x)[:1], tf.bool)
        return shrinking_loop(body, [x, nothing_yet], [x, y, ids], self.steps)

    def estimate(self, victim: Victim, x, y, ids, seed):
        """The gradient of the margin at `x`, times q.

        Images, and the pairs of an image, are processed in chunks whose order does not depend on the batch,
        so the rounding of the sum does not either.
        """
        pairs_at_once = min(self.samples, self.chunk // 2)
        images_at_once = max(self.chunk // (2 * pairs_at_once), 1)
        count = tf.shape(x)[0]

        def of_some_images(start, gradients):
            some = slice(start, start + images_at_once)
            images, labels, names = x[some], y[some], ids[some]

            def add_some_pairs(first, total):
                pairs = tf.range(first, tf.minimum(first + pairs_at_once, self.samples))
                return first + pairs_at_once, total + self._part(victim, images, labels, names, seed, pairs)

            def left(first, _):
                return first < self.samples

            loop = (0, tf.zeros_like(images))
            gradient = tf.while_loop(left, add_some_pairs, loop, parallel_iterations=1)[1]
            return start + images_at_once, tf.concat([gradients, gradient], axis=0)

        shape = tf.TensorShape([None, *x.shape[1:]])
        gradients = tf.while_loop(
            lambda start, _: start < count,
            of_some_images,
            (0, tf.zeros_like(x[:0])),
            shape_invariants=(tf.TensorShape([]), shape),
            parallel_iterations=1,
        )[1]
        return tf.reshape(gradients, tf.shape(x))

    def _part(self, victim: Victim, x, y, ids, seed, pairs):
        """What some of the pairs add to the estimates of some images."""
        copies = tf.shape(pairs)[0]
        # Every pair has its own id, so that its direction does not depend on the chunk.
        names = tf.cast(ids, tf.int64)[:, tf.newaxis] * self.samples + tf.cast(pairs, tf.int64)
        directions = self.draw(seed, tf.reshape(names, [-1]), x.shape[1:])
        centers, labels = (tf.repeat(v, copies, axis=0) for v in (x, y))
        probes = tf.concat([centers + self.sigma * directions, centers - self.sigma * directions], axis=0)
        margin, _ = self.margin_and_success(victim, probes, tf.tile(labels, [2]))
        ahead, behind = tf.split(margin, 2)
        slope = (ahead - behind) / (2.0 * self.sigma)
        # One probe that is not finite must not spoil the whole gradient of an image.
        slope = tf.where(tf.math.is_finite(slope), slope, tf.zeros_like(slope))
        parts = tf.reshape(per_example(slope) * directions, [-1, copies, *x.shape[1:]])
        return tf.reduce_sum(parts, axis=1)


class SPSA(NES):
    """Simultaneous perturbation stochastic approximation (Uesato et al., 2018): NES with directions of +-1.

    Table 8 of the hypersphere-embedding paper steps by the sign, as here; Uesato et al. step by Adam.

    Example:

    >>> result = SPSA(epsilon=0.031, steps=20, samples=64).run(model, x, y)

    Args:
        **kwargs: Those of `NES`.

    Reference: https://arxiv.org/abs/1802.05666
    """

    name = "spsa"
    draw = staticmethod(rng.rademacher)
