"""Adversarial weight perturbation: the gradient at weights that do worse (Wu et al., 2020).

With `awp_gamma`, one step of any framework

1. takes the gradient of the training loss at the weights w (and forgets what the pass did to moving
   statistics),
2. moves every kernel up along it, to w + v with `||v|| = gamma ||w||`, tensor by tensor; biases and the
scales
   of batch normalisation, which have one axis, stay,
3. takes the gradient there, puts the weights back bit for bit, and lets the optimiser use it.

That is one more forward and backward pass of the loss. The released code lets the optimiser work on w + v and
subtracts v afterwards; here weight decay sees w. The paper uses gamma 0.01 with PGD-AT and 0.005 with TRADES.
"""

import contextlib

import tensorflow as tf

from athe_tf.utils import replicas
from athe_tf.utils.errors import check


def check_gamma(gamma: float, head) -> None:
    """Refuses what cannot be perturbed."""
    check(0 <= gamma < 1, f"`awp_gamma` must lie in [0, 1). Received: awp_gamma={gamma}.")
    check(
        not gamma or getattr(head, "weight_norm", None) != "project",
        "AWP moves the class weights off the sphere that weight_norm='project' keeps them on. "
        f"Received: awp_gamma={gamma}. Use weight_norm='differentiable'.",
    )


def perturbation(weight, gradient, gamma):
    """`gamma ||w|| g / ||g||`; zero where the gradient is zero or not finite."""
    length = tf.norm(gradient)
    usable = tf.logical_and(tf.math.is_finite(length), length > 0)
    direction = tf.where(usable, gradient / tf.where(usable, length, 1.0), tf.zeros_like(gradient))
    return tf.cast(gamma, weight.dtype) * tf.norm(weight) * direction


@contextlib.contextmanager
def moved_up(variables, gradients, gamma):
    """Inside, every variable with two axes or more is moved up its gradient; afterwards all are as before."""
    pairs = [(v, g) for v, g in zip(variables, gradients, strict=True) if len(v.shape) > 1 and g is not None]
    kernels = [variable for variable, _ in pairs]
    with restoring(kernels):
        values = [tf.convert_to_tensor(kernel) for kernel in kernels]
        steps = [
            perturbation(value, gradient, gamma)
            for value, gradient in zip(values, _over_replicas([g for _, g in pairs]), strict=True)
        ]
        assign_all(kernels, [value + step for value, step in zip(values, steps, strict=True)])
        yield


@contextlib.contextmanager
def restoring(variables):
    """Puts variables back to what they were on entry, bit for bit."""
    kept = [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]
    try:
        yield
    finally:
        assign_all(variables, kept)


def _over_replicas(gradients) -> list:
    """Each replica has the gradient of its part of the batch; all move by that of the whole."""
    return replicas.total(gradients)


def assign_all(variables, values) -> None:
    """Assigns on this replica."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
