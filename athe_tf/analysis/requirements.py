"""What an analysis needs of a model, checked before anything is computed."""

import keras

from athe_tf.analysis.names import ANALYSES, OF_RUNS
from athe_tf.attacks.engine.victim import Victim, victim
from athe_tf.evaluation.measures import ANGULAR_HEADS, head_of
from athe_tf.utils.errors import InputError


def checked_victim(analysis: str, model) -> Victim:
    """The model as a victim; raises `InputError` unless it has what the analysis needs."""
    found = victim(model)
    needs = (ANALYSES | OF_RUNS)[analysis].needs
    if needs in ("features", "angles"):
        found.require_features(analysis)
        found.require_head(analysis)
    if needs == "angles":
        check_angular_head(found)
    if needs == "weights":
        check_weights(analysis, model, found)
    return found


def check_weights(analysis: str, model, found: Victim) -> None:
    """Raises `InputError` unless the model is a Keras model, whose weights can be reached."""
    if not isinstance(model, keras.Model):
        raise InputError(
            f"{analysis} needs the weights of a Keras model. Received: {type(model).__name__} "
            f"'{found.name}'. Give a .keras file."
        )


def check_angular_head(found: Victim) -> None:
    """Raises `InputError` unless the outputs are functions of angles."""
    head = head_of(found)
    if head not in ANGULAR_HEADS:
        raise InputError(
            f"Angles need a hypersphere head: one of {list(ANGULAR_HEADS)}. Received: '{found.name}' with "
            f"head '{head}'. Convert the model with athe_tf.models.to_hypersphere."
        )
