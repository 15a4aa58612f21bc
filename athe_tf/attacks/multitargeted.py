"""MultiTargeted: PGD towards every wrong class."""

from athe_tf.attacks import losses
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.attacks.targets import TargetRounds
from athe_tf.utils.errors import InputError


class MultiTargeted(TargetRounds, PGD):
    """PGD towards each wrong class in turn, on the difference of two logits (Gowal et al., 2019).

    `z_t - z_y` has no competitors: while the margin follows the leading class, and may hop between two of
    them, every target here gets all the steps. It does not depend on the logit scale. Any misclassification
    counts as success.

    A round is one target and one restart; the likeliest targets, by clean logit, come first, so most images
    need one round. In training the call returns, of all rounds, the image with the largest margin.

    Example:

    >>> attack = MultiTargeted(epsilon=8 / 255, steps=20, n_targets=4)
    >>> result = attack.run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        n_targets: Number of wrong classes that are targets; all of them by default.
        **kwargs: `steps` (20), `step_size` (`epsilon / 4`), `start`, `restarts` and `select`, as in `PGD`.

    Reference: https://arxiv.org/abs/1910.09338
    """

    name = "multitargeted"
    depends_on_scale = False

    def __init__(self, epsilon, norm="linf", *, n_targets: int | None = None, **kwargs):
        super().__init__(epsilon, norm, n_targets=n_targets, loss=losses.gap, targeted=False, **kwargs)

    def check_victim(self, victim: Victim) -> None:
        if self.n_targets is None and victim.num_classes is None:
            raise InputError(
                "MultiTargeted attacks towards every wrong class, and the number of classes of "
                f"'{victim.name}' is unknown. Use athe_tf.victim(model, num_classes=...), or set `n_targets`."
            )
