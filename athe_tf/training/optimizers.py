"""Stochastic gradient descent as PyTorch computes it."""

from typing import Any

import keras
import tensorflow as tf

from athe_tf.utils.errors import check
from athe_tf.utils.keras_compat import OptimizerWithCoupledDecay


# The registered name is part of the files that older versions wrote.
@keras.saving.register_keras_serializable(package="athe_tf", name="MomentumSGD")
class TorchSGD(OptimizerWithCoupledDecay):
    """SGD with momentum and coupled weight decay, equal to PyTorch's.

        v <- momentum * v + (gradient + weight_decay * w)
        w <- w - learning_rate * v

    `keras.optimizers.SGD` differs in two ways. It keeps the learning rate inside the velocity, so that after
    a drop the old rate stays in effect for 10 to 20 steps; and its weight decay is decoupled, which at the
    same number and momentum 0.9 is about ten times weaker (1 / (1 - momentum)). Weight decay is the most
    sensitive setting of adversarial training, so published recipes need this one.

    Example:

    >>> optimizer = TorchSGD(0.1, momentum=0.9, weight_decay=5e-4)

    Args:
        learning_rate: A number or a schedule. Defaults to 0.1.
        momentum: A number or a schedule, such as the `OneCycle` of PyTorch's momentum. Defaults to 0.9.
        weight_decay: Coupled, on all trainable variables unless `exclude_from_weight_decay` was called.
            Defaults to 0.
        nesterov: Look one step ahead. Defaults to `False`.
        **kwargs: Those of `keras.optimizers.Optimizer`, such as `clipnorm`, `global_clipnorm`, `use_ema`.
    """

    def __init__(
        self, learning_rate=0.1, momentum=0.9, weight_decay=0.0, nesterov=False, name="torch_sgd", **kwargs
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        check(
            callable(momentum) or 0 <= momentum < 1,
            f"`momentum` must lie in [0, 1). Received: momentum={momentum}.",
        )
        check(
            weight_decay is None or weight_decay >= 0,
            f"`weight_decay` must not be negative. Received: weight_decay={weight_decay}.",
        )
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay or 0.0, nesterov

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.velocities = [
            self.add_variable_from_reference(variable, name="velocity") for variable in variables
        ]

    def update_step(self, gradient, variable, learning_rate):
        learning_rate = tf.cast(learning_rate, variable.dtype)
        gradient = tf.cast(gradient, variable.dtype)
        if self.weight_decay and self.decays(variable):
            gradient = gradient + self.weight_decay * tf.convert_to_tensor(variable)
        momentum: Any = self.momentum
        if callable(momentum):
            momentum = tf.cast(momentum(self.iterations), variable.dtype)
        velocity = self.state_of(variable, self.velocities)
        updated = momentum * tf.convert_to_tensor(velocity) + gradient
        self.assign(velocity, updated)
        step = gradient + momentum * updated if self.nesterov else updated
        self.assign_sub(variable, learning_rate * step)

    def get_config(self):
        own = {name: getattr(self, name) for name in ("momentum", "weight_decay", "nesterov")}
        if callable(self.momentum):
            own["momentum"] = keras.saving.serialize_keras_object(self.momentum)
        return super().get_config() | own

    @classmethod
    def from_config(cls, config, custom_objects=None):
        if isinstance(config["momentum"], dict):
            momentum = keras.saving.deserialize_keras_object(config["momentum"], custom_objects)
            config = config | {"momentum": momentum}
        return super().from_config(config, custom_objects)
