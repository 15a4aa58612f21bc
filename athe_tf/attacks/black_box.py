"""What the attacks share that use nothing of a model but its outputs: Square, NES, SPSA, ZOO, Spatial."""

import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.gradients import best_round
from athe_tf.attacks.engine.loop import LoopResult
from athe_tf.attacks.engine.results import RoundResult
from athe_tf.models.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.errors import check


def query_budget(n_queries: int, minimum: int) -> int:
    """The budget of an attack, the clean query included; raises `InputError` if it is too small."""
    needed = f"at least {minimum} queries per image, including the clean one"
    check(n_queries >= minimum, f"This attack needs {needed}. Received: n_queries={n_queries}.")
    return int(n_queries)


class BlackBoxAttack(Attack):
    """An attack that sees logits only, and so works on models without useful gradients.

    A subclass implements one round in `search`. `AttackResult.queries` counts the passes of an image until
    it is solved. A solved image stays in its batch until an eighth of the batch is solved; those passes are
    not counted, because nothing depends on them.
    """

    def margin_and_success(self, victim: Victim, x, y):
        """`(the margin, which is maximized; success)` of each image, for one query."""
        logits = victim.logits(x)
        return self.loss_sign * losses.margin(logits, y), self.succeeded(logits, y)

    def search(self, victim: Victim, x, y, ids, seed) -> LoopResult:
        """One search; graph code.

        Its state begins with the best images, and whether the model is wrong there. With `measures_size` it
        ends with the size of the perturbation.
        """
        raise NotImplementedError

    #: Whether `search` measures perturbations that the norm of the threat model does not measure.
    measures_size = False

    def extra_queries(self, loop: LoopResult):
        """Queries of an image beyond those of each step."""
        return 0

    def run_round(self, victim: Victim, x, y, ids, seed, round_index) -> RoundResult:
        """One search."""
        loop = self.search(victim, x, y, ids, rng.fold(seed, round_index))
        x_adv, success, *rest = loop.state
        norm = tf.where(success, rest[-1], float("inf")) if self.measures_size else None
        return self.round_result(victim, x, x_adv, success, loop, norm=norm, extra=self.extra_queries(loop))

    # Already graph code: AutoGraph, in a caller's function, would take seconds to minutes to rewrite it.
    @tf.autograph.experimental.do_not_convert
    def craft(self, victim: Victim, x, y, ids, seed):
        """The best images found, adversarial or not; of several restarts those with the largest margin."""

        def climb(round_index):
            images = self.search(victim, x, y, ids, rng.fold(seed, round_index)).state[0]
            return images, tf.zeros(tf.shape(x)[:1], tf.int32)  # it has no gradients

        def score(images):
            return self.margin_and_success(victim, images, y)[0]

        return best_round(climb, self.rounds(victim), score, x, victim)[0]
