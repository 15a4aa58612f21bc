"""Batches side by side: two on a CPU, or one on each of several devices.

A convolution keeps all cores busy, but the small operations between convolutions do not. Two independent
halves fill each other's gaps: on 2 cores, PGD-10 of a WRN-10-1 on 128 images takes 0.84 of the time in two
lanes (more lanes gain nothing). An accelerator queues its work anyway, and gets one lane.

With `over_devices`, every batch of an evaluation is divided evenly among devices. Which images stand together
in a batch decides on nothing, so neither does the number of devices.
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

LANES = 2
# Below this a half is too small to be worth its own operations.
SMALLEST_HALF = 16


_devices: contextvars.ContextVar = contextvars.ContextVar("athe_tf_devices", default=())
_device: contextvars.ContextVar = contextvars.ContextVar("athe_tf_device", default=None)


@contextlib.contextmanager
def over_devices(devices) -> Iterator[None]:
    """Inside, `map_in_lanes` divides every batch among these devices; fewer than two change nothing."""
    token = _devices.set(tuple(devices) if len(devices) > 1 else ())
    try:
        yield
    finally:
        _devices.reset(token)


def current_device() -> str | None:
    """The device that this call was given by `map_in_lanes`, or `None`."""
    return _device.get()


def usable_cores() -> int:
    """Cores that this process may run on; fewer than the machine has in a container or under `taskset`."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def lane_count() -> int:
    """How many lanes this machine gets."""
    accelerated = tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("TPU")
    return 1 if accelerated or usable_cores() < LANES else LANES


def craft_in_lanes(craft: Callable, x, y, ids):
    """`craft(x, y, ids)`, computed on halves of the batch that do not wait for each other; graph code.

    Only for victims that treat every image by itself; the random numbers belong to the ids and stay the same.
    """
    count = x.shape[0]
    lanes = lane_count()
    if lanes == 1 or count is None or count % lanes or count // lanes < SMALLEST_HALF:
        return craft(x, y, ids)
    parts = zip(*(tf.split(value, lanes) for value in (x, y, ids)), strict=True)
    return tf.concat([craft(*part) for part in parts], axis=0)


def even_batches(rows: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Rows in batches of at most `batch_size`, equal up to one row, so that no lane is left without work.

    Example:

    >>> [len(batch) for batch in even_batches(np.arange(90), 128)]      # two lanes
    [45, 45]
    """
    count = -(-len(rows) // batch_size)
    filled = -(-count // lane_count()) * lane_count()
    if len(rows) >= filled * SMALLEST_HALF:
        count = filled
    return np.array_split(rows, count) if count else []


def map_in_lanes(function: Callable, items: Iterable) -> Iterator[tuple[Any, Any]]:
    """Yields `(item, function(item))` in order, with as many calls under way as there are lanes.

    Over several devices an item, which is an array of row numbers, comes back as one part for each device.
    """
    if _devices.get():
        yield from _map_over_devices(function, items, _devices.get())
        return
    lanes = lane_count()
    if lanes == 1:
        yield from ((item, function(item)) for item in items)
        return
    with ThreadPoolExecutor(lanes) as pool:
        under_way: collections.deque = collections.deque()
        for item in items:
            under_way.append((item, pool.submit(function, item)))
            if len(under_way) > lanes:
                done, future = under_way.popleft()
                yield done, future.result()
        for done, future in under_way:
            yield done, future.result()


def _map_over_devices(function: Callable, items: Iterable, devices) -> Iterator[tuple[Any, Any]]:
    def on_device(device, rows):
        _device.set(device)  # the thread's own, and the thread serves one device
        with tf.device(device):
            return function(rows)

    with contextlib.ExitStack() as stack:
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in devices]
        under_way: collections.deque = collections.deque()
        for item in items:
            # The parts differ by one row at most; a last batch may leave devices without any.
            for thread, device, rows in zip(
                threads, devices, np.array_split(item, len(devices)), strict=True
            ):
                if len(rows):
                    under_way.append((rows, thread.submit(on_device, device, rows)))
            while len(under_way) > 2 * len(devices):
                rows, future = under_way.popleft()
                yield rows, future.result()
        for rows, future in under_way:
            yield rows, future.result()
