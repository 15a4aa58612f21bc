"""What the attacks share that ask a model for its outputs and for nothing else: Square, NES, SPSA, ZOO."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import Attempt
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import best_round
from athe_tf.utils import rng
from athe_tf.utils.errors import check


def query_budget(n_queries: int, steps: int | None, least: int) -> int:
    """The budget of an attack: `steps`, which the number in a name sets, or else `n_queries`."""
    budget = n_queries if steps is None else steps
    check(
        budget >= least,
        f"This attack needs at least {least} queries an image, the clean one included. "
        f"Received: n_queries={budget}.",
    )
    return int(budget)


class BlackBoxAttack(Attack):
    """An attack that sees logits only: models without gradients, or with useless ones, are no obstacle.

    A subclass says in `search` what one round does. `AttackResult.queries` counts the passes of an image
    until it is solved. A solved image stays in its batch until an eighth of the batch is solved, and those
    passes are not counted: nobody needs them.
    """

    restarts = 1

    def judged(self, victim: Victim, x, y):
        """`(what is maximised: the margin, success)` of each image, for one query."""
        logits = victim.logits(x)
        return self.aim * losses.margin(logits, y), self.succeeded(logits, y)

    def successes(self, victim: Victim, x, y, asked):
        """Who succeeds among the images that are asked about; the others cost no query."""
        rows = tf.where(asked)
        nobody = tf.zeros_like(asked)

        def ask():
            success = self.succeeded(victim.logits(tf.gather_nd(x, rows)), tf.gather_nd(y, rows))
            return tf.tensor_scatter_nd_update(nobody, rows, success)

        return tf.cond(tf.reduce_any(asked), ask, lambda: nobody)

    def search(self, victim: Victim, x, y, ids, seed) -> tuple:
        """`(the best images found, whether the model is wrong there, queries)`; graph code."""
        raise NotImplementedError

    def rounds(self, victim: Victim) -> int:
        return self.restarts

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        """One search."""
        x_adv, success, queries = self.search(victim, x, y, ids, rng.fold(seed, round_index))
        norm = tf.where(success, self.threat.distance(x, x_adv), float("inf"))
        zeros = tf.zeros_like(queries)
        return Attempt(x_adv, success, queries, zeros, norm, zeros)

    # Written as a graph already: to rewrite it takes AutoGraph, in a caller's function, seconds to minutes.
    @tf.autograph.experimental.do_not_convert
    def craft(self, victim: Victim, x, y, ids, seed):
        """The best images found, adversarial or not; of several restarts those with the largest margin."""
        return best_round(
            lambda round_index: self.search(victim, x, y, ids, rng.fold(seed, round_index))[0],
            self.rounds(victim),
            lambda x_adv: self.judged(victim, x_adv, y)[0],
            x,
            victim,
        )
