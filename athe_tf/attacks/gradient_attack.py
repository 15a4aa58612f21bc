"""What the attacks share that climb a loss of the logits: PGD, APGD and their variants."""

import functools

from athe_tf.attacks import losses
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.gradients import best_round
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.options import AttackOptions
from athe_tf.utils import rng
from athe_tf.utils.choices import check_logit_scale
from athe_tf.utils.options import check_option


class GradientAttack(Attack):
    """An attack that climbs a loss of the logits by its gradient.

    A variant overrides, with the same signatures in all attacks: `clean_inputs` and `round_inputs`, what the
    loss compares the logits with; `round_seed`; `seen`, what the loss sees of an image; or the whole
    `objective`.

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`.
        loss: A name, or a function of `(logits, labels, reference)` that returns one value per example.
        logit_scale: The scale of the logits that the loss sees: `"model"`, or a number in place of a
            hypersphere head's scale.
        restarts: Number of starts that are tried.
        targeted: Take `y` as the classes to reach.
    """

    depends_on_scale = True
    #: The m of the loss `"he"`.
    margin = 0.0
    #: Compare rounds by their margins in training, for attacks whose losses differ from round to round.
    compares_margins = False

    def __init__(self, epsilon, norm, loss, logit_scale, restarts: int, targeted: bool):
        super().__init__(epsilon, norm, targeted)
        check_option(AttackOptions, "restarts", restarts)
        check_logit_scale(logit_scale)
        self.loss = loss
        self.loss_function = losses.get(loss) if isinstance(loss, str) else loss
        self.logit_scale = logit_scale
        self.restarts = int(restarts)

    def check_victim(self, victim: Victim) -> None:
        if isinstance(self.loss, str):
            losses.check_classes(self.loss, victim.num_classes)

    def clean_inputs(self, victim: Victim, x) -> list:
        """What the loss compares with, computed once per batch: the clean logits for KL. One query each."""
        return [self.seen(victim, x)[0]] if self.loss == "kl" else []

    def round_passes(self, victim: Victim) -> float:
        return super().round_passes(victim) + (self.loss == "kl")

    def round_inputs(self, victim: Victim, inputs: list, y, ids, seed, round_index) -> list:
        """What the loss compares with in one round, made from `clean_inputs` without a query."""
        return inputs

    def round_seed(self, victim: Victim, seed, round_index):
        """The seed of the start of a round."""
        return rng.fold(seed, round_index)

    def seen(self, victim: Victim, x):
        """`(what the loss sees, logits)`."""
        logits = victim.logits(x)
        return losses.scale_factor(self.logit_scale, victim) * logits, logits

    def objective(self, victim: Victim, y, inputs: list):
        """A function from images to `(what is maximized, one value per example; logits)`."""
        function = self.loss_function
        if self.loss == "he":
            scale = losses.scale_factor(self.logit_scale, victim) * victim.scale
            function = functools.partial(function, shift=scale * self.margin)

        def evaluate(x):
            seen, logits = self.seen(victim, x)
            return self.aim * function(seen, y, inputs[0] if inputs else None), logits

        return evaluate

    def best_of_rounds(self, climb, victim: Victim, x, y, inputs: list):
        """For training: of all rounds, the images with the highest loss; `climb` gives those of one round."""

        def score(x_adv):
            if self.compares_margins:
                return losses.margin(victim.logits(x_adv), y)
            return self.objective(victim, y, inputs)(x_adv)[0]

        return best_round(climb, self.rounds(victim), score, x, victim)
