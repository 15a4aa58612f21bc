"""`TransferredAttack`: adversarial examples made on one model, tested on another."""

import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import Attempt
from athe_tf.attacks.engine.victim import Victim


class TransferredAttack(Attack):
    """Makes adversarial images on a parent model, and tests them on the victim.

    For a victim without gradients that was made of a model that has them: a file for another runtime.

    Example:

    >>> parent = athe_tf.victim(athe_tf.load_model("net.keras"))
    >>> attack = TransferredAttack(athe_tf.attacks.get("apgd-ce", epsilon=0.1), parent)
    >>> result = attack.run(open_runtime_model("net.tflite"), x, y)

    Args:
        source: The attack on the parent. Its threat model is the one of this attack.
        parent: The model with gradients.
    """

    def __init__(self, source: Attack, parent: Victim):
        super().__init__(source.epsilon, source.norm)
        self.source = source
        self.parent = parent
        self.name = f"{source.name} on the parent"

    def settings(self) -> dict:
        """Those of the attack on the parent, and which model that is."""
        return {**self.source.settings(), "parent": self.parent.digest() or self.parent.name}

    def check_victim(self, victim: Victim) -> None:
        self.source.check_victim(self.parent)

    def attempt(self, victim: Victim, x, y, ids, seed, round_index) -> Attempt:
        x_adv = self.source.craft(self.parent, x, y, ids, seed)
        ones = tf.ones_like(y)
        return Attempt(
            x_adv=x_adv,
            success=self.succeeded(victim.logits(x_adv), y),
            queries=ones,
            gradients=tf.zeros_like(ones),
            norm=self.threat.distance(x, x_adv),
            nonfinite=tf.zeros_like(ones),
        )
