"""Single-step training from starts that carry label information (LIET)."""

import tensorflow as tf

from athe_tf.attacks.engine import gradient_health
from athe_tf.attacks.engine.gradients import finite_gradient, input_gradient
from athe_tf.losses import as_probabilities
from athe_tf.training.adversarial_model import Cost, Terms, full_precision
from athe_tf.training.options import LIETOptions
from athe_tf.training.pgd_at import PGDAT
from athe_tf.utils import replicas, rng
from athe_tf.utils.label_checks import most_probable

# The share of the entries of a start that are random, drawn once per batch.
LOWEST_SHARE, HIGHEST_SHARE = 0.1, 0.5
# Up to this radius the step is projected to the ball; in a larger one, noise is twice as large instead.
PROJECTED_UP_TO = 8 / 255 + 1e-6


class LIET(PGDAT):
    """LIET: one step from a start that carries information about the label (ICCV 2025).

    Every `refresh` updates, the gradient of each class at a gray image gives that class a direction: its
    signs, times epsilon. An image starts at itself plus or minus (by a coin per batch) the direction of its
    class, where a random share of the entries, 10 to 50%, is uniform noise instead. One step of sign ascent
    follows, projected to the ball; for epsilon above 8/255 the noise has twice the size and nothing is
    projected.

    Training objective: `CE(f(x*), y) + c * JS(f(start), f(x*))`, where c rises linearly to `consistency`, and
    the gradient also flows through the start. Labels are smoothed by `relaxation`, in attack and loss: the
    wrong classes get random shares of it, drawn anew for each example and each pass. The attack takes its
    gradient from the start's pass of the loss, so batch normalization is in training mode and is updated
    twice per step. With HE the margin of Eq. 6 is part of the last cross-entropy only.

    The released code raises c once per epoch and renews the directions at the beginning of each epoch, too.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=8 / 255, steps=1)
    >>> trainer = athe_tf.training.LIET(net, attack, updates=38200)

    Args:
        attack: A PGD attack of one step and one start, in linf.
        updates: Number of updates in which c rises, those of the training. Defaults to `None`: c is constant.
        consistency: The final weight c of the divergence. Defaults to 100.
        relaxation: Label smoothing with random shares. Defaults to 0.6.
        refresh: Updates between two sets of directions. Defaults to 20.
        **kwargs: Those of `AdversarialModel`; `bn_mode` can only be `"train"`.
    """

    options_class = LIETOptions

    def __init__(self, net, attack=None, *, updates: int | None = None, **kwargs):
        super().__init__(net, attack, **kwargs)
        self.updates = updates
        self.directions = self.add_weight(
            name="directions",
            shape=(net.output_shape[-1], *self.rest.input_shape[1:]),
            initializer="zeros",
            trainable=False,
            dtype=self.image_dtype,
            autocast=False,
        )

    def train_step(self, data):
        due = tf.convert_to_tensor(self.optimizer.iterations) % self.options.refresh == 0
        kept = tf.convert_to_tensor(self.directions)
        self.directions.assign(tf.cond(due, self.class_directions, lambda: kept))
        return super().train_step(data)

    def class_directions(self):
        """The signs of the gradient of each class' loss at a gray image, in inference mode."""
        shape = self.directions.shape
        labels = tf.range(shape[0])

        def loss(images):
            logits = full_precision(self.rest(images, training=False))
            return self.relaxed_crossentropy(labels, logits, labels, stream=1)

        _, gradient = input_gradient(loss, tf.fill(shape, tf.constant(0.5, self.image_dtype)))
        return tf.sign(finite_gradient(gradient)[0])

    def craft(self, x, y):
        """The starts: the step itself is part of `training_loss`."""
        seed, ids, batch = self.step_seed(), replicas.positions(x), tf.zeros([1], tf.int32)
        share = rng.uniform(seed, batch, [1, 1, 1], LOWEST_SHARE, HIGHEST_SHARE, stream=2)
        side = rng.rademacher(seed, batch, [1, 1, 1], stream=3, dtype=x.dtype)
        is_noise = rng.uniform(seed, ids, x.shape[1:], 0.0, 1.0, stream=4) < share
        epsilon = tf.ones([], x.dtype) * self.epsilon()
        reach = tf.where(epsilon > PROJECTED_UP_TO, 2 * epsilon, epsilon)
        noise = reach * rng.uniform(seed, ids, x.shape[1:], stream=5, dtype=x.dtype)
        label = epsilon * tf.gather(tf.convert_to_tensor(self.directions), most_probable(y))
        return tf.clip_by_value(x + side * tf.where(is_noise, noise, label), 0.0, 1.0)

    def training_loss(self, x, x_adv, y) -> Terms:
        attack, ids = self.current_attack(), replicas.positions(x)
        with self.crafted.counting(self.epsilon()):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(x_adv)
                before = self.training_logits(x_adv)
                start_losses = self.relaxed_crossentropy(y, before, ids, stream=6)
            gradient, bad = finite_gradient(tape.gradient(start_losses, x_adv))
            gradient_health.report(gradient_health.flags_of(bad))
        moved = tf.clip_by_value(x_adv + attack.step_size * attack.threat.ascent(gradient), 0.0, 1.0)
        projected = attack.threat.project(x, moved)
        images = tf.where(attack.threat.epsilon > PROJECTED_UP_TO, moved, projected)
        after = self.training_logits(tf.stop_gradient(images))
        losses = self.relaxed_crossentropy(y, self.with_margin(y, after), ids, stream=7)
        weight = self.options.consistency
        if self.updates is not None:
            done = tf.cast(self.optimizer.iterations + 1, losses.dtype) / self.updates
            weight *= tf.minimum(done, 1.0)
        return Terms(losses + weight * js_divergence(before, after), adversarial_logits=after)

    def relaxed_crossentropy(self, y, logits, ids, stream: int):
        """Cross-entropy whose label smoothing goes to the wrong classes in random shares."""
        true, right = as_probabilities(y, logits), as_probabilities(most_probable(y), logits)
        drawn = rng.uniform(self.step_seed(), ids, true.shape[1:], 0.0, 1.0, stream, logits.dtype)
        drawn = tf.where(right > 0, tf.zeros_like(drawn), drawn)
        share = self.options.relaxation
        target = (1 - share) * true + share * drawn / tf.reduce_sum(drawn, axis=1, keepdims=True)
        return -tf.reduce_sum(target * tf.nn.log_softmax(logits), axis=1)

    def crafting_passes(self) -> tuple[int, int]:
        return 0, 0

    def loss_passes(self) -> Cost:
        return Cost(2, 1 + 2, 2)


def js_divergence(logits, other_logits):
    """The Jensen-Shannon divergence of two predictions; one value per example."""
    one, other = tf.nn.log_softmax(logits), tf.nn.log_softmax(other_logits)
    top = tf.maximum(one, other)
    middle = top + tf.math.log(0.5 * (tf.exp(one - top) + tf.exp(other - top)))
    return 0.5 * sum(tf.reduce_sum(tf.exp(p) * (p - middle), axis=1) for p in (one, other))
