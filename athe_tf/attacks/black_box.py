"""What the attacks share that use nothing of a model but its outputs: Square, NES, SPSA, ZOO, Spatial."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.gradients import best_round
from athe_tf.attacks.engine.results import Attempt
from athe_tf.attacks.engine.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.errors import check


def query_budget(n_queries: int, least: int) -> int:
    """The budget of an attack, the clean query included; raises `InputError` if it is too small."""
    needed = f"at least {least} queries per image, including the clean one"
    check(n_queries >= least, f"This attack needs {needed}. Received: n_queries={n_queries}.")
    return int(n_queries)


class BlackBoxAttack(Attack):
    """An attack that sees logits only, and so works on models without useful gradients.

    A subclass implements one round in `search`. `AttackResult.queries` counts the passes of an image until
    it is solved. A solved image stays in its batch until an eighth of the batch is solved; those passes are
    not counted, because nothing depends on them.
    """

    def judged(self, victim: Victim, x, y):
        """`(the margin, which is maximized; success)` of each image, for one query."""
        logits = victim.logits(x)
        return self.aim * losses.margin(logits, y), self.succeeded(logits, y)

    def successes(self, victim: Victim, x, y, tested):
        """Which of the `tested` images succeed; the others cost no query."""
        rows = tf.where(tested)
        none = tf.zeros_like(tested)

        def test():
            success = self.succeeded(victim.logits(tf.gather_nd(x, rows)), tf.gather_nd(y, rows))
            return tf.tensor_scatter_nd_update(none, rows, success)

        return tf.cond(tf.reduce_any(tested), test, lambda: none)

    def search(self, victim: Victim, x, y, ids, seed) -> tuple:
        """`(the best images found, whether the model is wrong there, queries)`; graph code.

        A fourth value is the size of a perturbation that the norm of the threat model does not measure.
        """
        raise NotImplementedError

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One search."""
        x_adv, success, queries, *sizes = self.search(victim, x, y, ids, rng.fold(seed, round_index))
        norm = tf.where(success, sizes[0] if sizes else self.threat.distance(x, x_adv), float("inf"))
        zeros = tf.zeros_like(queries)
        return Attempt(x_adv, success, queries, zeros, norm, zeros)

    # Already graph code: AutoGraph, in a caller's function, would take seconds to minutes to rewrite it.
    @tf.autograph.experimental.do_not_convert
    def craft(self, victim: Victim, x, y, ids, seed):
        """The best images found, adversarial or not; of several restarts those with the largest margin."""

        def climb(round_index):
            return self.search(victim, x, y, ids, rng.fold(seed, round_index))[0]

        return best_round(climb, self.rounds(victim), lambda v: self.judged(victim, v, y)[0], x, victim)
