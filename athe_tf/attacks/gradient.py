"""Iterated gradient ascent inside a ball: FGSM, BIM, PGD, MIM and the losses they climb.

They are one algorithm. Start somewhere in the ball; repeat: take the gradient of a loss, step along the
direction of steepest ascent of the norm, project back. The variants differ in the start, the number and
size of steps, the loss, and whether the gradient is averaged over time.
"""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.gradients import adam_direction, adam_memory
from athe_tf.attacks.gradient_attack import IterativeAttack
from athe_tf.attacks.registry import AttackOptions
from athe_tf.models.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_option

SCALES = (1.0, 5.0, 10.0, 15.0, 30.0)


class PGD(IterativeAttack):
    """Projected gradient descent, on the loss of your choice (Madry et al., 2018).

    Variants override `initial_memory` and `direction`, and what an `IterativeAttack` offers.

    Example:

    >>> attack = PGD(epsilon=8 / 255, step_size=2 / 255, steps=10)
    >>> x_adv = attack(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        steps: Number of steps; 0 returns the start. Defaults to 20.
        step_size: Length of a step in the norm. Defaults to `epsilon / 4`.
        start: `"uniform"` in the ball, `"gaussian"` (0.001 N(0, I), as TRADES starts) or `"zero"`. By default
            `"uniform"`, or what the training framework prefers that uses the attack.
        loss: `"ce"` (default), `"margin"`, `"dlr"`, `"kl"`, `"mse"`, `"he"`, or a function of
            `(logits, labels, reference)` that returns one value per example.
        logit_scale: The scale of the logits that the loss sees: `"model"` (default) leaves them unchanged; a
            number replaces the scale of a hypersphere head. 1 is the paper's text: a weak attack.
        margin: The m of the `"he"` loss. Defaults to 0.
        restarts: Number of starts: evaluation tries them until one succeeds, training takes the one with the
            highest loss. Defaults to 1.
        select: In evaluation, whether `"any"` iterate may succeed (default, stronger) or only the
            `"last"`, as the papers count.
        targeted: Take `y` as the classes to reach. Defaults to `False`.

    Reference: https://arxiv.org/abs/1706.06083
    """

    name = "pgd"
    default_steps = 20
    default_start = "uniform"
    #: Epsilon divided by the default step size.
    epsilon_per_step = 4

    def __init__(
        self,
        epsilon,
        norm="linf",
        *,
        steps: int | None = None,
        step_size=None,
        start: str | None = None,
        loss="ce",
        logit_scale="model",
        margin: float = 0.0,
        restarts: int = 1,
        select: str = "any",
        targeted: bool = False,
    ):
        super().__init__(
            epsilon,
            norm,
            steps=self.default_steps if steps is None else steps,
            loss=loss,
            logit_scale=logit_scale,
            restarts=restarts,
            select=select,
            targeted=targeted,
        )
        start = self.default_start if start is None else start
        check_option(AttackOptions, "start", start)
        self.step_size = self.step_length(step_size, self.epsilon_per_step)
        self.start, self.margin = start, margin

    @property
    def chosen_start(self) -> str | None:
        """The start that was given to the constructor, if one was."""
        return self._given.get("start")

    def with_default_start(self, start: str) -> "PGD":
        """A copy with this start, or the attack itself if its maker or its definition chose one.

        Example:

        >>> PGD(epsilon=0.1).with_default_start("gaussian").start
        'gaussian'
        >>> BIM(epsilon=0.1).with_default_start("gaussian").start
        'zero'
        """
        chosen = self.chosen_start is not None or self.default_start != PGD.default_start
        return self if chosen else self.replace(start=start)

    def with_epsilon(self, epsilon) -> "PGD":
        """A copy of this attack in another ball, with steps in proportion.

        Args:
            epsilon: A number, or a scalar tensor that a schedule computes: in a compiled training step the
                radius then changes without a new trace.
        """
        return self.replace(epsilon=epsilon, step_size=self.step_size / self.threat.epsilon * epsilon)

    def initial_point(self, x, ids, seed):
        return self.threat.random_start(x, ids, seed, self.start)

    def direction(self, gradient, memory: list):
        """`(direction of length one, memory)`."""
        return self.threat.ascent(gradient), memory

    def step(self, x_adv, gradient, memory: list, project):
        direction, memory = self.direction(gradient, memory)
        return project(x_adv + self.step_size * direction), memory


class BIM(PGD):
    """The basic iterative method: PGD from the image itself (Kurakin et al., 2017).

    Example:

    >>> BIM(epsilon=8 / 255).start
    'zero'

    Args:
        **kwargs: Those of `PGD`. `steps` defaults to 10, `start` to `"zero"`.
    """

    name = "bim"
    default_steps = 10
    default_start = "zero"


class FGSM(BIM):
    """The fast gradient (sign) method: one step of length epsilon (Goodfellow et al., 2015).

    Example:

    >>> FGSM(epsilon=0.1).step_size
    0.1

    Args:
        steps: 1.
        **kwargs: Those of `BIM`. `step_size` defaults to `epsilon`.
    """

    name = "fgsm"
    epsilon_per_step = 1

    def __init__(self, epsilon, norm="linf", *, steps=1, **kwargs):
        check(steps == 1, f"FGSM takes one step. Received: steps={steps}. Use 'bim-{steps}' instead.")
        super().__init__(epsilon, norm, steps=1, **kwargs)


class MIM(BIM):
    """The momentum iterative method (Dong et al., 2018): gradients, each of l1 norm one, add up.

    Example:

    >>> x_adv = MIM(epsilon=8 / 255, steps=20)(model, x, y)

    Args:
        decay: The mu of the paper, the share of the past that is kept. Defaults to 1.
        **kwargs: Those of `BIM`.
    """

    name = "mim"

    def __init__(self, epsilon, norm="linf", *, decay: float = 1.0, **kwargs):
        super().__init__(epsilon, norm, **kwargs)
        self.decay = decay

    def initial_memory(self, x):
        return [tf.zeros_like(x)]

    def direction(self, gradient, memory):
        length = tf.reduce_sum(tf.abs(gradient), axis=[1, 2, 3], keepdims=True)
        velocity = self.decay * memory[0] + gradient / tf.maximum(length, 1e-12)
        return self.threat.ascent(velocity), [velocity]


class AdamPGD(PGD):
    """PGD by Adam, as Gowal et al. (2020) train: the last half of the steps has a tenth of the rate.

    Example:

    >>> AdamPGD(epsilon=8 / 255).steps
    10

    Args:
        **kwargs: Those of `PGD`. `steps` defaults to 10, and `step_size`, the rate, to 0.1.
    """

    name = "pgd-adam"
    default_steps = 10

    def __init__(self, epsilon, norm="linf", *, step_size=0.1, **kwargs):
        super().__init__(epsilon, norm, step_size=step_size, **kwargs)

    def initial_memory(self, x):
        return adam_memory(x)

    def direction(self, gradient, memory):
        direction, memory = adam_direction(gradient, memory)
        late = tf.cast(memory[-1] > self.steps // 2, direction.dtype)
        return (1.0 - 0.9 * late) * direction, memory


class CWLinf(PGD):
    """PGD on the margin, the linf form of Carlini and Wagner's loss: independent of the logit scale.

    Example:

    >>> CWLinf(epsilon=8 / 255).loss
    'margin'

    Args:
        **kwargs: Those of `PGD`. `loss` defaults to `"margin"`.
    """

    name = "cw-linf"
    depends_on_scale = False

    def __init__(self, epsilon, norm="linf", *, loss="margin", **kwargs):
        super().__init__(epsilon, norm, loss=loss, **kwargs)


class AdaptivePGD(PGD):
    """PGD on the hypersphere-embedding training loss itself, with its scale and margin (section 4.1).

    It is PGD at the model's scale, exactly: the gradient of the cross-entropy is the sum over all classes
    l other than y of p_l (dz_l - dz_y). A margin lowers the logit of y, which multiplies every p_l by the
    same factor, so the gradient changes its length and not its direction, and a step has a fixed length.

    The margin of training is not part of a model; give the one it was trained with.

    Example:

    >>> result = AdaptivePGD(epsilon=8 / 255, margin=0.1).run(model, x, y)

    Args:
        margin: The m of training. Defaults to 0.2.
        **kwargs: Those of `PGD`. `loss` defaults to `"he"`.
    """

    name = "adaptive-pgd"

    def __init__(self, epsilon, norm="linf", *, loss="he", margin=0.2, **kwargs):
        super().__init__(epsilon, norm, loss=loss, margin=margin, **kwargs)


class ScaleSweepPGD(PGD):
    """PGD on cross-entropy at several logit scales and on the margin; the worst case of each image.

    Cross-entropy depends on the scale of the logits: too small, and its gradient raises all wrong classes
    alike; too large, and it saturates. Both flatter the model. This attack tries them all, so its result
    does not depend on the scale. A round is one scale and one restart. The rounds of a restart begin at the
    same point, so the successes are exactly the union of those of `PGD(logit_scale=s)` over the scales and
    `PGD(loss="margin")`.

    Example:

    >>> result = ScaleSweepPGD(epsilon=8 / 255, steps=20).run(model, x, y)

    Args:
        scales: The scales of cross-entropy: of the cosines for a hypersphere head, for any other head
            multiples of the logits. Defaults to `(1, 5, 10, 15, 30)`.
        **kwargs: `epsilon`, `norm`, `steps` (20), `step_size` (`epsilon / 4`), `start`, `restarts`, `select`:
            as in `PGD`.
    """

    name = "pgd-scale-sweep"
    # It has scales of its own.
    depends_on_scale = False
    compares_margins = True

    def __init__(self, epsilon, norm="linf", *, scales=SCALES, **kwargs):
        super().__init__(epsilon, norm, loss=ce_at_scales, targeted=False, **kwargs)
        self.scales = tuple(float(scale) for scale in scales)
        positive = all(scale > 0 for scale in self.scales)
        check(positive, f"`scales` must be larger than 0. Received: scales={self.scales}.")

    def rounds(self, victim: Victim) -> int:
        return (len(self.scales) + 1) * self.restarts

    def round_seed(self, victim, seed, round_index):
        return rng.fold(seed, round_index // (len(self.scales) + 1))

    def round_inputs(self, victim, inputs, y, ids, seed, round_index):
        # The margin comes first: it does not depend on the scale.
        factors = tf.constant([0.0, *(scale / victim.scale for scale in self.scales)], tf.float32)
        return [tf.fill(tf.shape(y), factors[round_index % (len(self.scales) + 1)])]


def ce_at_scales(logits, labels, factors):
    """Cross-entropy of logits times a factor for each example; the margin where the factor is zero."""
    crossentropy = losses.ce(factors[:, tf.newaxis] * logits, labels)
    return tf.where(factors > 0.0, crossentropy, losses.margin(logits, labels))
