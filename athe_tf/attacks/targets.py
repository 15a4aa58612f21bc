"""Classes to reach, ranked by the clean logits; for attacks that try one after another, and PGD on all."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.gradient import PGD
from athe_tf.models.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError


def ranked_target(clean_logits, y, rank):
    """The wrong class of each image with the given rank by clean logit; rank 0 is the likeliest.

    Ranks beyond the last wrong class start over. `rank` is a number, or one for each image.

    Example:

    >>> ranked_target(tf.constant([[3.0, 1.0, 2.0]]), tf.constant([0]), 0).numpy()
    array([2], dtype=int32)
    """
    classes = tf.shape(clean_logits)[-1]
    label = tf.one_hot(y, classes, on_value=True, off_value=False)
    others = tf.where(label, tf.fill(tf.shape(clean_logits), -float("inf")), clean_logits)
    order = tf.argsort(others, axis=-1, direction="DESCENDING", stable=True)
    rank = tf.broadcast_to(rank % (classes - 1), tf.shape(y))
    return tf.gather(order, rank, axis=1, batch_dims=1)


class TargetSchedule(Schedule):
    """Targets are independent of each other: several rounds of an image can be in one batch."""

    rounds_in_parallel = True


class TargetRounds(Attack):
    """A round is one target and one restart: all targets once, then all of them again. A mixin.

    Args:
        n_targets: Number of classes that are tried, at most all wrong ones; `None` for all.
    """

    compares_margins = True
    schedule_class = TargetSchedule
    clean_passes: tuple[int, int] | None = (1, 0)

    def __init__(self, epsilon, norm="linf", *, n_targets: int | None, **kwargs):
        super().__init__(epsilon, norm, **kwargs)
        check_at_least(1, n_targets=n_targets)
        self.n_targets = n_targets if n_targets is None else int(n_targets)

    def target_count(self, victim: Victim) -> int:
        """The number of targets on this victim."""
        if victim.num_classes is None:
            return self.n_targets or 1
        others = victim.num_classes - 1
        return others if self.n_targets is None else min(self.n_targets, others)

    def rounds(self, victim: Victim) -> int:
        return self.target_count(victim) * self.restarts

    def split(self, victim: Victim, round_index):
        """`(rank of the target, number of the restart)` of a round."""
        return round_index % self.target_count(victim), round_index // self.target_count(victim)

    def clean_inputs(self, victim: Victim, x, y) -> list:
        """The clean logits."""
        return [victim.source.logits(x)]

    def round_inputs(self, victim: Victim, inputs: list, y, ids, seed, round_index) -> list:
        """The target of each image."""
        return [ranked_target(inputs[0], y, self.split(victim, round_index)[0])]

    def round_seed(self, victim: Victim, seed, round_index):
        """The seed of a target and a restart, not of a round: more targets do not change earlier starts."""
        return rng.fold(seed, *self.split(victim, round_index))


class MultiTargeted(TargetRounds, PGD):
    """PGD toward each wrong class in turn, on the difference of two logits (Gowal et al., 2019).

    `z_t - z_y` has no competitors: while the margin follows the leading class, and may hop between two of
    them, every target here gets all the steps. It does not depend on the logit scale. Any misclassification
    counts as success.

    A round is one target and one restart; the likeliest targets, by clean logit, come first, so most images
    need one round. In training the call returns, of all rounds, the image with the largest margin.

    Example:

    >>> attack = MultiTargeted(epsilon=8 / 255, steps=20, n_targets=4)
    >>> result = attack.run(model, x, y)

    Args:
        n_targets: Number of wrong classes that are targets; all of them by default.
        **kwargs: `epsilon`, `norm`, `steps` (20), `step_size` (`epsilon / 4`), `start`, `restarts`, `select`:
            as in `PGD`.

    Reference: https://arxiv.org/abs/1910.09338
    """

    name = "multitargeted"
    depends_on_scale = False

    def __init__(self, epsilon, norm="linf", *, n_targets: int | None = None, **kwargs):
        super().__init__(epsilon, norm, n_targets=n_targets, loss=losses.gap, targeted=False, **kwargs)

    def check_victim(self, victim: Victim) -> None:
        if self.n_targets is None and victim.num_classes is None:
            raise InputError(
                "MultiTargeted attacks toward every wrong class, and the number of classes of "
                f"'{victim.name}' is unknown. Use athe_tf.victim(model, num_classes=...), or set `n_targets`."
            )
