"""Tiny nets, data and runs that several tests train."""

import contextlib
import functools
import shutil

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.data import ImageSet, Splits
from athe_tf.models import networks
from athe_tf.programs import callbacks

SHAPE = (8, 8, 1)


# The pieces of recipes, as flags; what goes together in one run.
CYCLE: dict = {
    "accumulate": 2, "label_smoothing": 0.1, "bn_momentum": 0.99, "bn_copy_first": True,
    "lr_schedule": "one_cycle", "lr_per_epoch": True, "ema": 0.9, "ema_start": 0.5, "ema_constant": True,
    "ema_statistics": "averaged", "decay_variables": "all_but_norm", "cutmix": 1.0, "erasing": 0.25,
}  # fmt: skip
ADAMW: dict = {
    "accumulate": 2, "label_smoothing": 0.1, "bn_momentum": 0.99, "optimizer": "adamw(beta_2=0.95)",
    "lr_schedule": "cosine", "lr_min": 0.001, "learning_rate": 0.01, "lr_warmup": 0.5, "ema": 0.9,
    "decay_variables": "kernels", "mixup": 0.8, "randaugment": 9.0, "cutout": 2,
}  # fmt: skip
RISING, BY_ADAM = {"step_size_warmup": 2.0}, {"attack": "pgd-adam"}


def tiny_net(head="he", seed=0, classes=4, batch_norm=True):
    """Two layers with batch normalization: the least that has everything a step meets."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input(SHAPE)
    h = keras.layers.Conv2D(4, 3, strides=2, use_bias=False)(inputs)
    h = athe_tf.BatchNorm()(h) if batch_norm else h
    h = keras.layers.Flatten()(keras.layers.ReLU()(h))
    if head == "linear":
        outputs = keras.layers.Dense(classes, name="head")(h)
    else:
        outputs = athe_tf.CosineDense(classes, angular=head == "mhe", name="head")(h)
    return keras.Model(inputs, outputs)


def tiny_batch(count=16, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(count, *SHAPE)).astype("float32"), rng.integers(0, classes, count).astype(
        "int32"
    )


def tiny_splits(count=64):
    x, y = tiny_batch(count, classes=4)
    images = (255 * x).astype("uint8")
    parts = [ImageSet(images, y.astype("int64")) for _ in range(3)]
    return Splits("tiny", *parts, 4, SHAPE, None, (0.5,), (0.25,))


def get_weights(net):
    return [np.asarray(w).copy() for w in net.weights]


def assert_equal_weights(one, other, atol=0.0):
    for a, b in zip(one, other, strict=True):
        if atol:
            np.testing.assert_allclose(a, b, atol=atol, rtol=0)
        else:
            np.testing.assert_array_equal(a, b)


@contextlib.contextmanager
def small_cnn_of_one_layer():
    """`small_cnn` with the least that has everything a step meets: most of a short run is tracing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "CHANNELS", (4,))
        patch.setattr(networks, "FEATURES", 8)
        yield


@contextlib.contextmanager
def after_step(number, action):
    """Calls `action` once a run of the programs has made a step and its backup, counted from 1."""
    original = callbacks.Backup.on_train_batch_end
    steps = []

    def acting(self, batch, logs=None):
        original(self, batch, logs)
        steps.append(1)
        if len(steps) == number:
            action()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callbacks.Backup, "on_train_batch_end", acting)
        yield


@contextlib.contextmanager
def photographed(folder, copies):
    """Copies the folder of a run after steps of it: what a kill at that moment would leave on the disk.

    Args:
        folder: The folder of the run, which must make a backup after every step.
        copies: From the number of a step to where the copy goes.
    """
    with contextlib.ExitStack() as stack:
        for number, copy in copies.items():
            stack.enter_context(after_step(number, functools.partial(shutil.copytree, folder, copy)))
        yield
