"""Batches in parallel: two streams on a CPU, or one batch on each of several devices.

A convolution keeps all cores busy, but the small operations between convolutions do not. Two independent
halves fill each other's gaps: on 2 cores, PGD-10 of a WRN-10-1 on 128 images takes 0.84 of the time in two
streams (more streams gain nothing). An accelerator queues its work anyway, and gets one stream.

With `over_devices`, every batch of an evaluation is divided evenly among devices. Results do not depend on
which images share a batch, so they do not depend on the number of devices either.
"""

import collections
import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

STREAMS = 2
# Below this, half of a training batch is too small to be worth its own operations in the graph.
SMALLEST_HALF = 16


_devices: contextvars.ContextVar = contextvars.ContextVar("athe_tf_devices", default=())
_device: contextvars.ContextVar = contextvars.ContextVar("athe_tf_device", default=None)


@contextlib.contextmanager
def over_devices(devices) -> Iterator[None]:
    """A context in which `map_batches` divides every batch among devices; one device changes nothing."""
    token = _devices.set(tuple(devices) if len(devices) > 1 else ())
    try:
        yield
    finally:
        _devices.reset(token)


def current_device() -> str | None:
    """The device that this call was given by `map_batches`, or `None`."""
    return _device.get()


def usable_cores() -> int:
    """Cores that this process may run on; fewer than the machine has in a container or under `taskset`."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def stream_count() -> int:
    """The number of streams on this machine."""
    accelerated = tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("TPU")
    return 1 if accelerated or usable_cores() < STREAMS else STREAMS


def craft_in_parallel(craft: Callable, x, y, ids):
    """`craft(x, y, ids)`, computed on independent halves of the batch; graph code.

    Only for victims whose logits of an image do not depend on its batch. Random numbers belong to the ids, so
    they do not change.
    """
    count = x.shape[0]
    streams = stream_count()
    if streams == 1 or count is None or count % streams or count // streams < SMALLEST_HALF:
        return craft(x, y, ids)
    parts = zip(*(tf.split(value, streams) for value in (x, y, ids)), strict=True)
    return tf.concat([craft(*part) for part in parts], axis=0)


def even_batches(rows: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Rows in batches of at most `batch_size`, equal up to one row, so that no stream is idle.

    Even seven images go in two batches: a forward pass of a WRN-10-1 takes 0.79 of the time then.

    Example:

    >>> [len(batch) for batch in even_batches(np.arange(90), 128)]      # two streams
    [45, 45]
    """
    count = -(-len(rows) // batch_size)
    filled = -(-count // stream_count()) * stream_count()
    return np.array_split(rows, min(filled, len(rows))) if count else []


def map_batches(function: Callable, items: Iterable) -> Iterator[tuple[Any, Any]]:
    """Yields `(item, function(item))` in order, with as many calls in flight as there are streams.

    With several devices an item, which is an array of row numbers, comes back in one part per device.
    """
    if _devices.get():
        yield from _map_over_devices(function, items, _devices.get())
        return
    streams = stream_count()
    if streams == 1:
        yield from ((item, function(item)) for item in items)
        return
    with ThreadPoolExecutor(streams) as pool:
        yield from _in_order(((item, pool.submit(function, item)) for item in items), streams)


def _in_order(submitted: Iterable, most: int) -> Iterator[tuple[Any, Any]]:
    """`(item, result)` for every `(item, future)`, with at most `most` of them in flight."""
    in_flight: collections.deque = collections.deque()
    for pair in submitted:
        in_flight.append(pair)
        if len(in_flight) > most:
            item, future = in_flight.popleft()
            yield item, future.result()
    for item, future in in_flight:
        yield item, future.result()


def _map_over_devices(function: Callable, items: Iterable, devices) -> Iterator[tuple[Any, Any]]:
    def on_device(device, rows):
        _device.set(device)  # of this thread, which serves one device
        with tf.device(device):
            return function(rows)

    def submitted(threads):
        for item in items:
            # The parts differ by one row at most; the last batch may leave devices idle.
            parts = np.array_split(item, len(devices))
            for thread, device, rows in zip(threads, devices, parts, strict=True):
                if len(rows):
                    yield rows, thread.submit(on_device, device, rows)

    with contextlib.ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in devices]
        yield from _in_order(submitted(threads), 2 * len(devices))
