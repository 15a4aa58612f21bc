"""Adversarial weight perturbation: the gradient at weights that do worse (Wu et al., 2020)."""

import contextlib

import keras
import tensorflow as tf

from athe_tf.models.features import find_head
from athe_tf.training.options import PerturbationOptions, check_perturbation
from athe_tf.utils import replicas
from athe_tf.utils.options import check_option


class AWP:
    """Adversarial weight perturbation, for any framework.

    One step

    1. computes the gradient of the training loss at the weights w, and restores the moving statistics,
    2. moves every kernel along it, to w + v with `||v|| = gamma ||w||` per tensor; biases and the scales of
       batch normalization, which have one axis, stay,
    3. computes the gradient there, restores the weights bit for bit, and hands the gradient to the optimizer.

    That is one more forward and backward pass of the loss. The released code lets the optimizer work on w + v
    and subtracts v afterward; here weight decay sees w. The paper uses gamma 0.01 with PGD-AT and 0.005 with
    TRADES.

    Example:

    >>> trainer = athe_tf.training.TRADES(net, attack, weight_perturbation=athe_tf.training.AWP(0.005))

    Args:
        gamma: The size of the perturbation relative to the weights.
        start: The first update with perturbed weights. Defaults to 0.
    """

    def __init__(self, gamma: float, start: int = 0):
        check_option(PerturbationOptions, "awp_gamma", gamma, "gamma")
        self.gamma, self.start = gamma, start

    def __repr__(self) -> str:
        return f"AWP({self.gamma}, start={self.start})"

    def check_net(self, net: keras.Model) -> None:
        """Raises `InputError` for a classifier whose weights cannot be perturbed."""
        check_perturbation(self.gamma, getattr(find_head(net).layer, "weight_norm", None))

    def perturbed(self, net: keras.Model, gradients, update):
        """Context in which the weights of `net` are moved along `gradients`; restored afterward."""
        started = tf.cast(tf.convert_to_tensor(update) >= self.start, tf.float64)
        return moved_up(net.trainable_variables, gradients, self.gamma * started)


def perturbation(weight, gradient, gamma):
    """`gamma ||w|| g / ||g||`; zero where the gradient is zero or not finite."""
    length = tf.norm(gradient)
    usable = tf.logical_and(tf.math.is_finite(length), length > 0)
    direction = tf.where(usable, gradient / tf.where(usable, length, 1.0), tf.zeros_like(gradient))
    return tf.cast(gamma, weight.dtype) * tf.norm(weight) * direction


@contextlib.contextmanager
def moved_up(variables, gradients, gamma):
    """Context in which variables with several axes are moved along their gradients; restored afterward."""
    pairs = [(v, g) for v, g in zip(variables, gradients, strict=True) if len(v.shape) > 1 and g is not None]
    kernels = [variable for variable, _ in pairs]
    with restoring(kernels):
        # Each replica has the gradient of its part of the batch; all move along that of the global batch.
        slopes = replicas.total([gradient for _, gradient in pairs])
        for kernel, slope in zip(kernels, slopes, strict=True):
            value = tf.convert_to_tensor(kernel)
            kernel.assign(value + perturbation(value, slope, gamma))
        yield


@contextlib.contextmanager
def restoring(variables):
    """Restores variables to their values on entry, bit for bit."""
    kept = [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, kept, strict=True):
            variable.assign(value)
