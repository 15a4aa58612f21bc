"""Free adversarial training."""

import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.gradient import finite_gradient
from athe_tf.training.adversarial_model import AdversarialModel, Cost, Terms
from athe_tf.utils import replicas
from athe_tf.utils.errors import InputError, check


def into_linf_ball(noise, epsilon):
    return tf.clip_by_value(noise, -epsilon, epsilon)


def into_l2_ball(noise, epsilon):
    length = tf.sqrt(tf.reduce_sum(tf.square(noise), axis=[1, 2, 3], keepdims=True))
    return noise * tf.minimum(epsilon / tf.maximum(length, 1e-12), 1.0)


BALLS = {"linf": into_linf_ball, "l2": into_l2_ball}


class FreeAT(AdversarialModel):
    """FreeAT: one backward pass moves the weights down and the noise up (Shafahi et al., 2019).

    Every batch is trained on `replays` times (the paper's m). A replay computes the loss on
    `clip(x + noise, 0, 1)`, and its one backward pass gives the gradient of the weights, which the optimiser
    takes, and that of the noise, which steps up and back into the ball. The noise is never reset: a new batch
    begins with that of the batch before, and only the very first with zeros. A pixel that the noise pushes
    out of [0, 1] has no gradient through the clip, so its noise stays: on images with many black or white
    pixels it soon does nothing there. With `noise_in_box` image and noise are brought back to the edge of
    [0, 1] after each step, from where they can return; so does the code of Wong et al. (2020), whose
    settings are those of Table 3 of the HE paper.

    Training objective: `CE(f(x + noise), y)`, with HE the margin loss of Eq. 6. Because the pass is shared,
    the noise climbs the very same loss: this is the one framework whose attack contains the margin and, if
    there is any, the label smoothing. Table 1 of the HE paper has no row for it; the released ImageNet code
    shares the loss likewise. For CIFAR (Table 3) the paper does not give s and m, nor is there released code.

    An epoch is one pass over the images with `replays` updates for each batch, as the HE paper counts: 10
    epochs of 8 replays cost as much as 80 of ordinary training.

    The noise belongs to positions in the global batch, whatever the number of replicas.

    Example:

    >>> trainer = FreeAT(net, athe_tf.attacks.FGSM(8 / 255), replays=8, batch_size=128, margin=0.2)

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: Its threat model (linf or l2) and step size are used; one step, one start. `FGSM` steps by
            epsilon, as the paper does.
        replays: Updates for each batch. Defaults to 8.
        batch_size: Images in a batch, over all replicas; smaller batches are fine.
        noise_in_box: Keep image and noise together in [0, 1]. Defaults to `False`.
        **kwargs: Those of `AdversarialModel`, without `bn_mode`: it is `"train"` by construction.
    """

    default_bn_mode = "train"

    def __init__(
        self,
        net,
        attack: Attack | None = None,
        *,
        batch_size: int,
        replays: int = 8,
        noise_in_box: bool = False,
        **kwargs,
    ):
        super().__init__(net, attack, **kwargs)
        check(replays >= 1, f"`replays` must be at least 1. Received: replays={replays}.")
        check(batch_size >= 1, f"`batch_size` must be at least 1. Received: batch_size={batch_size}.")
        self._check_attack(attack)
        self.replays = self.updates_per_step = replays
        self.batch_size = batch_size
        self.noise_in_box = noise_in_box
        self.noise = self.add_weight(
            name="noise",
            shape=(batch_size, *net.input_shape[1:]),
            initializer="zeros",
            trainable=False,
            dtype=self.image_dtype,
            autocast=False,
        )

    def _check_attack(self, attack) -> None:
        check(
            self.bn_mode == "train",
            "FreeAT shares one pass between crafting and training, so bn_mode can only be 'train'. "
            f"Received: bn_mode='{self.bn_mode}'. Leave it out.",
        )
        steps, restarts = getattr(attack, "steps", None), getattr(attack, "restarts", None)
        if (steps, restarts) != (1, 1):
            raise InputError(
                "FreeAT takes one step a replay, and its noise never starts again: use "
                f"attack=athe_tf.attacks.FGSM(epsilon). Received: {type(attack).__name__} with "
                f"steps={steps}, restarts={restarts}. Set `replays` instead."
            )
        norm = attack.threat.norm
        if norm not in BALLS:
            raise InputError(f"FreeAT exists for linf and l2. Received: norm='{norm}'. Use PGDAT.")

    def training_loss(self, x, x_adv, y) -> Terms:
        logits = self.net(x_adv, training=True)
        return Terms(self.crossentropy(y, logits), adversarial_logits=logits)

    def crafting_passes(self) -> tuple[int, int]:
        return 0, 0

    def loss_passes(self) -> Cost:
        return Cost(self.replays, self.replays, self.replays)

    def train_step(self, data):
        x, y, sample_weight = self.unpack(data)
        # Unrolled: replicas cannot meet in an optimiser inside tf.while_loop.
        for _ in range(self.replays):
            logs = self.replay(x, y, sample_weight)
        return logs

    def replay(self, x, y, sample_weight=None) -> dict:
        """One pass there and back: an update of the noise and one of the weights."""
        rows = self.positions(x)
        noise = tf.gather(self.noise, rows)
        if self.epsilon_schedule is not None:
            # The noise of a larger ball would be left over when a new period begins.
            noise = BALLS[self.attack.threat.norm](noise, self.epsilon())
        moved = x + noise
        x_adv = tf.clip_by_value(moved, 0.0, 1.0)
        terms, loss, gradients, (slope,) = self.backward(x, x_adv, y, sample_weight, sources=[x_adv])
        self._keep_noise(rows, self.stepped(x, noise, through_clip(slope, moved)))
        self.update_weights(gradients)
        return self.log_step(x, y, terms, loss, sample_weight)

    def stepped(self, x, noise, gradient):
        """The noise after a step up, inside the ball."""
        attack = self.current_attack()
        threat = attack.threat
        # Half precision may overflow; a noise that is not a number would stay so for ever.
        gradient, _ = finite_gradient(gradient)
        noise = BALLS[threat.norm](noise + attack.step_size * threat.ascent(gradient), threat.epsilon)
        # Only shortens the noise, so it stays in the ball.
        return tf.clip_by_value(noise, -x, 1.0 - x) if self.noise_in_box else noise

    def _keep_noise(self, rows, noise) -> None:
        """Writes these rows on every replica, so that all have the noise of the global batch."""
        where = rows[:, tf.newaxis]
        if replicas.count() == 1:
            self.noise.assign(tf.tensor_scatter_nd_update(self.noise, where, noise))
            return
        mine = tf.scatter_nd(where, noise, self.noise.shape)
        touched = tf.scatter_nd(where, tf.ones_like(noise), self.noise.shape)
        everyones, touched = replicas.total([mine, touched])
        self.noise.assign(tf.where(touched > 0, everyones, tf.convert_to_tensor(self.noise)))


def through_clip(gradient, moved):
    """The gradient of `clip(moved, 0, 1)`: nothing passes where a pixel has left the range."""
    return tf.where(tf.logical_and(moved >= 0.0, moved <= 1.0), gradient, tf.zeros_like(gradient))
