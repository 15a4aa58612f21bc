"""MultiTargeted: one attack towards every wrong class; and how targets are chosen by clean rank."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, check


def ranked_target(clean_logits, y, rank):
    """The wrong class of each image with the given rank by clean logit; rank 0 is the nearest.

    Ranks beyond the last wrong class begin again.
    """
    classes = tf.shape(clean_logits)[-1]
    label = tf.one_hot(y, classes, on_value=True, off_value=False)
    others = tf.where(label, tf.fill(tf.shape(clean_logits), -float("inf")), clean_logits)
    order = tf.argsort(others, axis=-1, direction="DESCENDING", stable=True)
    return tf.gather(order, rank % (classes - 1), axis=1)


def capped_targets(wanted: int | None, victim: Victim) -> int:
    """How many targets there are: those wanted, or all, and never more than there are wrong classes."""
    if victim.num_classes is None:
        return wanted or 1
    others = victim.num_classes - 1
    return others if wanted is None else min(wanted, others)


def target_and_restart(round_index, targets: int):
    """`(rank of the target, number of the restart)` of a round: all targets once, then all again."""
    return round_index % targets, round_index // targets


class MultiTargeted(PGD):
    """PGD towards each wrong class in turn, on the difference of two logits (Gowal et al., 2019).

    `z_t - z_y` has no competitors: where the margin follows whichever class leads, and may hop between
    two of them, every target here gets all the steps. It is indifferent to the logit scale. Any
    misclassification counts as success.

    A round is one target and one restart; the nearest targets, by clean logit, come first, so most images
    need one round. In training the call returns, of all rounds, the image with the largest margin.

    Example:

    >>> attack = MultiTargeted(epsilon=8 / 255, steps=20, top_k=4)
    >>> result = attack.run(model, x, y)

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        top_k: How many wrong classes are targets; all of them by default.
        **kwargs: `steps` (20), `step_size` (`epsilon / 4`), `start`, `restarts` and `select`, as in `PGD`.
    """

    name = "multitargeted"

    def __init__(self, epsilon, norm="linf", *, top_k: int | None = None, **kwargs):
        super().__init__(epsilon, norm, loss=losses.gap, targeted=False, **kwargs)
        check(top_k is None or top_k >= 1, f"`top_k` must be at least 1. Received: top_k={top_k}.")
        self.top_k = top_k

    def check_victim(self, victim: Victim) -> None:
        if self.top_k is None and victim.num_classes is None:
            raise InputError(
                f"MultiTargeted attacks towards every wrong class, and '{victim.name}' does not say how many "
                "classes it has. Give athe_tf.victim(model, num_classes=...), or `top_k`."
            )

    def rounds(self, victim: Victim) -> int:
        return capped_targets(self.top_k, victim) * self.restarts

    def split(self, victim: Victim, round_index):
        """The rank of the target and the number of the restart."""
        return target_and_restart(round_index, self.rounds(victim) // self.restarts)

    def loss_inputs(self, victim, x):
        return [victim.logits(x)]

    def round_inputs(self, victim, inputs, y, ids, seed, round_index):
        return [ranked_target(inputs[0], y, self.split(victim, round_index)[0])]

    def objective(self, victim, y, reference):
        def evaluate(x):
            logits = victim.logits(x)
            return losses.gap(logits, y, reference[0]), logits

        return evaluate

    def comparison(self, victim, y, inputs):
        return lambda x: losses.margin(victim.logits(x), y)

    def start_point(self, victim, x, ids, seed, round_index):
        # By target and restart, not by round: more targets keep the starts of those that were there.
        start_seed = rng.fold(seed, *self.split(victim, round_index))
        return self.threat.random_start(x, ids, start_seed, self.start)

    def settings(self):
        settings = super().settings() | {"loss": "gap", "targets": self.top_k or "all"}
        del settings["logit_scale"]  # it does not matter here
        return settings
