"""Free adversarial training."""

from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.attacks.engine import gradient_health
from athe_tf.attacks.engine.gradients import finite_gradient
from athe_tf.training.adversarial_model import Cost
from athe_tf.training.options import FreeATOptions
from athe_tf.training.pgd_at import PGDAT
from athe_tf.utils import replicas
from athe_tf.utils.errors import check
from athe_tf.utils.where import where_rows


class FreeAT(PGDAT):
    """FreeAT: one backward pass updates both the weights and the noise (Shafahi et al., 2019).

    Every batch is used `replays` times (the paper's m). A replay computes the loss on
    `clip(x + noise, 0, 1)`, and one backward pass gives the gradients of the weights, for the optimizer, and
    of the noise, which takes an ascent step and is projected to the ball. The noise is never reset: a batch
    starts with the noise of the batch before, and the first one with zeros. A pixel that the noise pushes out
    of [0, 1] has no gradient through the clip, so its noise stays unchanged: on images with many black or
    white pixels, it soon has no effect there. With `noise_in_box`, the noise is shortened after each step so
    that image plus noise stays in [0, 1], and the network sees `x + noise` without a clip: so does the code
    of Wong et al. (2020), whose settings Table 3 of the HE paper uses. In the first replay of a batch
    the noise belongs to other images, and the sum may then leave [0, 1].

    Training objective: `CE(f(x + noise), y)`, with HE the margin loss of Eq. 6. Because the pass is shared,
    the noise maximizes the same loss: this is the only framework whose attack contains the margin and the
    label smoothing. Table 1 of the HE paper has no row for it; the released ImageNet code shares the loss
    likewise. For CIFAR (Table 3) the paper does not give s and m, nor is there released code.

    An epoch is one pass over the images with `replays` updates per batch, as in the HE paper: 10 epochs
    of 8 replays cost as much as 80 epochs of standard training.

    The noise belongs to positions in the global batch and does not depend on the number of replicas. Each of
    several replicas has only the rows of its own images, so their batches all have `batch_size` images.

    Example:

    >>> attack = athe_tf.attacks.FGSM(8 / 255)
    >>> trainer = athe_tf.training.FreeAT(net, attack, replays=8, batch_size=128, margin=0.2)

    Args:
        attack: Its threat model (linf or l2) and step size are used; one step, one start. The step of
            `FGSM` is epsilon, as in the paper.
        replays: Updates per batch. Defaults to 8.
        batch_size: Images per batch, over all replicas; smaller batches are allowed on one replica.
        noise_in_box: After each step, keep image plus noise in [0, 1], instead of clipping it in the forward
            pass. Defaults to `False`.
        **kwargs: Those of `AdversarialModel`; `bn_mode` can only be `"train"`.
    """

    options_class = FreeATOptions

    def __init__(self, net, attack=None, *, batch_size: int, **kwargs):
        super().__init__(net, attack, **kwargs)
        check(batch_size >= 1, f"`batch_size` must be at least 1. Received: batch_size={batch_size}.")
        self.batch_size = batch_size
        shape = (batch_size, *self.rest.input_shape[1:])
        self.noise = replicas.divided_variable("noise", shape, self.image_dtype.name)

    def crafting_passes(self) -> tuple[int, int]:
        return 0, 0

    def loss_passes(self) -> Cost:
        return Cost(*[self.options.replays] * 3)

    def train_step(self, data):
        x, y, sample_weight = self.training_batch(data)
        count, size = replicas.count(), x.shape[0]
        check(
            count == 1 or size is None or size * count == self.batch_size,
            f"{count} replicas keep the noise of their images. Expected batches of {self.batch_size} images, "
            f"as `batch_size` says. Received: {(size or 0) * count} images. Drop the rest of an epoch.",
        )
        with self.crafted.counting(self.epsilon()):
            # Unrolled: replicas cannot synchronize in an optimizer inside tf.while_loop.
            for _ in range(self.options.replays):
                logs = self.replay(x, y, sample_weight)
        return logs

    def replay(self, x, y, sample_weight=None) -> dict:
        """One forward and backward pass: one update of the noise and one of the weights."""
        crafted = self.crafted_batch(x, y)
        images = crafted.images
        terms, loss, gradients, slope = self.backward(x, images, y, sample_weight, of_images=True)
        flags = gradient_health.flags_of(finite_gradient(slope)[1])
        if sample_weight is not None:
            # Images of weight 0 have no gradient of this loss.
            flags = tf.where(sample_weight > 0, flags, gradient_health.USABLE)
        gradient_health.report(flags)
        slope = slope if self.options.noise_in_box else through_clip(slope, crafted.moved)
        noise = self.stepped(x, crafted.noise, slope)
        self.noise.assign(tf.tensor_scatter_nd_update(self.noise, crafted.rows[:, tf.newaxis], noise))
        self.update_weights(gradients)
        return self.log_step(x, y, terms, loss, sample_weight)

    def craft(self, x, y):
        """The images with the noise of their positions; no pass."""
        rows = replicas.rows(x)
        noise = tf.gather(self.noise, rows)
        if self.epsilon_schedule is not None:
            # When a new period begins, the noise still has the size of a larger ball.
            noise = self.attack.threat.project_perturbation(noise, self.epsilon())
        moved = x + noise
        images = moved if self.options.noise_in_box else tf.clip_by_value(moved, 0.0, 1.0)
        return Noisy(images, rows, noise, moved)

    def stepped(self, x, noise, gradient):
        """The noise after an ascent step, projected to the ball."""
        attack = self.current_attack()
        threat = attack.threat
        # Half precision may overflow, and noise that is NaN would stay NaN.
        gradient, _ = finite_gradient(gradient)
        noise = threat.project_perturbation(noise + attack.step_size * threat.ascent(gradient))
        # Only shortens the noise, so it stays in the ball.
        return tf.clip_by_value(noise, -x, 1.0 - x) if self.options.noise_in_box else noise


class Noisy(NamedTuple):
    """What FreeAT crafts: images for the network, their rows and values of the noise, the unclipped sum."""

    images: Any
    rows: Any
    noise: Any
    moved: Any


def through_clip(gradient, moved):
    """The gradient through `clip(moved, 0, 1)`: zero where a pixel has left the range."""
    return where_rows(tf.logical_and(moved >= 0.0, moved <= 1.0), gradient, tf.zeros_like(gradient))
