"""A victim whose weights are on several devices, so that an attack can run on all of them.

An attack is compiled once. What differs between devices is where its weights lie: they are read when the
compiled function is called, from the device that `athe_tf.attacks.engine.parallel` runs the call on.
"""

import keras
import tensorflow as tf

from athe_tf.attacks.engine.parallel import current_device
from athe_tf.attacks.engine.victim import Victim, victim
from athe_tf.models.features import penultimate
from athe_tf.utils.tensorflow_compat import read_at_each_call


def replicated_victim(model: keras.Model, devices) -> Victim:
    """A victim from a Keras model in inference mode, with a copy of the weights on each of `devices`.

    Later changes of the model's weights are not seen.
    """
    original = victim(model)
    weights = _Weights(model, devices)
    features = penultimate(model)
    return Victim(
        lambda x: weights.call(model, x),
        features=None if features is None else (lambda x: weights.call(features, x)),
        head=original.head,
        scale=original.scale,
        num_classes=original.num_classes,
        name=original.name,
        facts=original.facts,
        digest=original.digest,
    )


class _Weights:
    """The weights of a model on several devices."""

    def __init__(self, model: keras.Model, devices):
        self.variables = model.variables
        self.copies = {}
        for device in devices:
            with tf.device(device):
                self.copies[device] = [tf.identity(variable) for variable in self.variables]
        self.first = devices[0]

    def here(self) -> list:
        """The copies on the device that computes now."""
        return self.copies[current_device() or self.first]

    def call(self, model: keras.Model, x):
        """`model(x)` in inference mode, with the weights of the device that computes."""
        values = self.here() if tf.executing_eagerly() else self._when_called()
        pairs = list(zip(self.variables, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return model(x, training=False)

    def _when_called(self) -> list:
        """Tensors of the function that is being traced, which get `here()` whenever it is called."""
        specs = [tf.TensorSpec(value.shape, value.dtype) for value in self.copies[self.first]]
        return read_at_each_call(self.here, specs, key=id(self))
