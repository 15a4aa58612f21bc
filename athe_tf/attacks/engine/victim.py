"""`Victim` and `victim`, under the names by which attacks import them."""

from athe_tf.models.victim import Victim, attack_dtype
from athe_tf.saving.opening import victim

__all__ = ["Victim", "attack_dtype", "victim"]
