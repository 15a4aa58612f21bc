"""Which images had a gradient to follow when adversarial examples were crafted for a training step."""

import contextlib
import contextvars
from collections.abc import Iterator

import tensorflow as tf

#: What an image met while it was crafted, combined by `|`: gradients that were zero, that were not finite,
#: and that could be followed.
ZERO, NOT_FINITE, USABLE = 1, 2, 4

_collector: contextvars.ContextVar = contextvars.ContextVar("athe_tf_gradient_health", default=None)


@contextlib.contextmanager
def collected() -> Iterator[list]:
    """Yields a list, to which attacks that craft inside the context add the flags of their images."""
    flags: list = []
    token = _collector.set((tf.compat.v1.get_default_graph(), flags))
    try:
        yield flags
    finally:
        _collector.reset(token)


def collecting() -> bool:
    """Whether flags are collected."""
    return _collector.get() is not None


def report(flags) -> None:
    """Hands over one int per image. Not from inside a loop or a function, whose tensors end with it."""
    graph, found = _collector.get() or (None, None)
    if found is not None and tf.compat.v1.get_default_graph() is graph:
        found.append(flags)


def flags_of(faults, gradients=1):
    """The flags of images whose `gradients` had these `faults`, as `finite_gradient` counts them."""
    nonfinite, zero = tf.unstack(faults, axis=1)
    usable = nonfinite + zero < gradients
    columns = ((zero > 0, ZERO), (nonfinite > 0, NOT_FINITE), (usable, USABLE))
    return tf.add_n([tf.where(column, flag, 0) for column, flag in columns])


def flags_of_round(found):
    """The flags of images after a round, a `RoundResult`; without gradients there is nothing to say."""
    zero = tf.zeros_like(found.nonfinite) if found.zero_gradients is None else found.zero_gradients
    flags = flags_of(tf.stack([found.nonfinite, zero], axis=1), found.gradients)
    return tf.where(found.gradients > 0, flags, USABLE)


def counts(flags: list):
    """`[images, some zero gradient, some non-finite one, none that could be followed]` of a step."""
    found = tf.concat(flags, axis=0)
    columns = [found >= 0, found & ZERO > 0, found & NOT_FINITE > 0, found & USABLE == 0]
    return tf.stack([tf.reduce_sum(tf.cast(column, tf.int64)) for column in columns])
