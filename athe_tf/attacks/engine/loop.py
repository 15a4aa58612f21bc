"""A compiled loop over a batch that shrinks as its images are done, and counts what they cost.

An image with an adversarial example needs no further passes. The loop drops finished rows from the batch
and puts their state back in place at the end, all inside the graph: one trace, any batch size.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from athe_tf.utils.where import where_rows

# The batch shrinks in eighths: convolution kernels are prepared anew for every batch size they meet, so a
# few sizes are faster than the exact count.
PARTS = 8


class LoopResult(NamedTuple):
    """What a loop leaves; one row per example, in their original order.

    Attributes:
        state: The state of `body`.
        steps: How many steps each example took.
        tested: 1 for examples that went through `last`, else 0.
        faults: How many of its gradients were not finite, and how many were zero, `[N, 2]`.
        judged: How often the judge was asked about it, if it is not the gradient source.
    """

    state: Any
    steps: Any
    tested: Any
    faults: Any
    judged: Any


_whole: contextvars.ContextVar = contextvars.ContextVar("athe_tf_whole_batches", default=False)


@contextlib.contextmanager
def whole_batches() -> Iterator[None]:
    """A context in which loops are traced that keep finished rows, for bodies that know the whole batch."""
    token = _whole.set(True)
    try:
        yield
    finally:
        _whole.reset(token)


def keeps_whole_batches() -> bool:
    """Whether this is inside `whole_batches`."""
    return _whole.get()


def _put_back(full, rows, work):
    return [tf.tensor_scatter_nd_update(f, rows[:, tf.newaxis], w) for f, w in zip(full, work, strict=True)]


def shrinking_loop(body, state, constants, steps, last=None) -> LoopResult:
    """Runs `body` up to `steps` times on every example that is not done yet.

    Args:
        body: `(i, state, constants) -> (state, done, ...)`. `done` is boolean `[n]`; an example's state stays
            as it was returned together with its first `True`. Two more values may follow: the faults
            of gradients, and flags of examples that the judge was asked about. All examples in `state`
            belong to the rows in `constants`, but their number changes from step to step.
        state: Tensors with the batch as first axis, in a list or a named tuple; what is to be returned.
        constants: Tensors with the batch as first axis that `body` reads: images, labels, ids.
        steps: Number of iterations, an integer or a scalar tensor.
        last: `(state, constants) -> (state, judged)`, called once afterward with the examples that are left,
            as an attack does to test its last iterate.
    """
    zeros = tf.zeros(tf.shape(tf.nest.flatten(state)[0])[:1], tf.int32)
    # With counts of steps, faults of gradients and questions to the judge.
    state = (state, zeros, tf.stack([zeros, zeros], axis=1), zeros)
    structures = state, constants
    state, constants = tf.nest.flatten(state), tf.nest.flatten(constants)
    total = tf.shape(state[0])[0]
    whole = _whole.get()
    part = tf.maximum((total + PARTS - 1) // PARTS, 1)

    def packed(*tensors):
        return [tf.nest.pack_sequence_as(s, t) for s, t in zip(structures, tensors, strict=True)]

    def kept(active, updated, work):
        pairs = zip(tf.nest.flatten(updated), work, strict=True)
        return [where_rows(active, new, old) for new, old in pairs]

    def running(i, rows, active, *_):
        return (i < steps) & tf.reduce_any(active)

    def iterate(i, rows, active, work, fixed, full):
        (inner, taken, *counts), inputs = packed(work, fixed)
        updated, done, *events = body(i, inner, inputs)
        for number, event in enumerate(events):
            counts[number] += event
        work = kept(active, (updated, taken + 1, *counts), work)
        active &= ~done
        if whole:
            return i + 1, rows, active, work, fixed, full
        left = tf.reduce_sum(tf.cast(active, tf.int32))
        size = (left + part - 1) // part * part

        def compact():
            chosen = tf.argsort(tf.cast(active, tf.int32), direction="DESCENDING", stable=True)[:size]
            left = tf.nest.map_structure(lambda v: tf.gather(v, chosen), (rows, active, work, fixed))
            return *left, _put_back(full, rows, work)

        rest = tf.cond(size < tf.shape(active)[0], compact, lambda: (rows, active, work, fixed, full))
        return i + 1, *rest

    loop = (0, tf.range(total), tf.fill([total], True), state, constants, state)
    shapes = tf.nest.map_structure(lambda v: tf.TensorShape([None, *v.shape[1:]]), loop[1:])
    _, rows, active, work, fixed, full = tf.while_loop(
        running, iterate, loop, shape_invariants=(tf.TensorShape([]), *shapes), parallel_iterations=1
    )
    tested = zeros
    if last is not None:

        def test():
            (inner, *counts, judged), inputs = packed(work, fixed)
            updated, asked = last(inner, inputs)
            return kept(active, (updated, *counts, judged + asked), work)

        work = tf.cond(tf.reduce_any(active), test, lambda: work)
        (tested,) = _put_back([zeros], rows, [tf.cast(active, tf.int32)])
    full = _put_back(full, rows, work)
    full = [tf.ensure_shape(f, s.shape) for f, s in zip(full, state, strict=True)]
    end, taken, *counts = tf.nest.pack_sequence_as(structures[0], full)
    return LoopResult(end, taken, tested, *counts)
