"""N-FGSM: fast adversarial training with more noise and no projection."""

import tensorflow as tf

from athe_tf.attacks.engine.gradients import gradient_of
from athe_tf.training.crafting import crafting_mode
from athe_tf.training.fast_at import FastAT
from athe_tf.training.options import NFGSMOptions
from athe_tf.utils import replicas


class NFGSM(FastAT):
    """N-FGSM: one step from noise larger than the ball, without projection (de Jorge et al., 2022).

    The start is uniform in a ball of `noise * epsilon`, and neither start nor step is projected back to the
    ball of epsilon; images stay in [0, 1]. The step is epsilon. Everything else is as in `FastAT`.

    Example:

    >>> attack = athe_tf.attacks.PGD(8 / 255, step_size=8 / 255, steps=1)
    >>> trainer = athe_tf.training.NFGSM(net, attack, noise=2.0)

    Args:
        net: A Keras model from images in [0, 1] to logits.
        attack: A PGD attack of one step and one start.
        noise: The magnitude of the noise in units of epsilon. Defaults to the paper's 2.
        **kwargs: Those of `AdversarialModel`.
    """

    options_class = NFGSMOptions

    def craft(self, x, y):
        attack = self.current_attack()
        noise = attack.threat.uniform_start(x, replicas.positions(x), self.step_seed())
        start = tf.clip_by_value(x + self.options.noise * noise, 0.0, 1.0)
        with crafting_mode(self.bn_mode, self.net, x) as training:
            _, gradient, _ = gradient_of(attack.objective(self.victim(training), y, []), start)
        return tf.clip_by_value(start + attack.step_size * attack.threat.ascent(gradient), 0.0, 1.0)
