"""What two and four logical devices compute, beside one: `python -m tests.replica_run FOUND.npz`.

The CPU can be divided only before TensorFlow starts, so this is a process of its own; one for all tests,
because starting and tracing are what costs.
"""

import contextlib
import dataclasses
import itertools
import pathlib
import resource
import sys
import tempfile
from unittest import mock

import athe_tf
from athe_tf.distribution import Distribution, DistributionSettings, initialize

import keras  # isort: skip
import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip

from athe_tf import attacks, training
from athe_tf.attacks.engine import driver
from athe_tf.data import ImageSet, Splits
from athe_tf.layers.batch_norm import synchronize
from athe_tf.models.victim import replicated_victim
from athe_tf.programs import build, selftest_checks
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run import train
from athe_tf.programs.run_state import RunProgress, load_state, save_state
from athe_tf.programs.workdir import Workdir
from athe_tf.training.averaging import StatisticsPass
from athe_tf.training.random_layers import augmented
from athe_tf.utils import arithmetic
from athe_tf.utils.errors import InputError
from athe_tf.utils.replicas import whole_value
from tests.small_runs import (
    ADAMW,
    BY_ADAM,
    CYCLE,
    RISING,
    after_step,
    small_cnn_of_one_layer,
    tiny_batch,
    tiny_net,
    tiny_splits,
)

ATTACKS = {"fast_at": attacks.PGD(0.1, step_size=0.125, steps=1), "free_at": attacks.FGSM(0.1)}
OPTIONS: dict[str, dict] = {"free_at": {"batch_size": 16, "replays": 2}}
# Frameworks, and how batch normalization behaves while they craft.
STEPS = (
    ("pgd_at", "eval"), ("alp", "eval"), ("trades", "eval"), ("fast_at", "eval"), ("free_at", "train"),
    ("llr", "frozen_clean"), ("fast_at", "train"), ("pgd_at", "batch_no_update"),
)  # fmt: skip


# Pieces of recipes; in float64, in which no sign of a small gradient depends on the number of devices.
PIECES = ({**CYCLE, **RISING}, {**ADAMW, **BY_ADAM})


def make_trainer(framework, distribution, synchronized=True, bn_mode=None):
    """The same trainer on any number of replicas."""
    with distribution.scope():
        net = tiny_net("he")
        if synchronized:
            synchronize(net)
        attack = ATTACKS.get(framework, attacks.PGD(0.1, steps=2))
        trainer = training.get(framework)(
            net, attack, margin=0.2, bn_mode=bn_mode, **OPTIONS.get(framework, {})
        )
        trainer.compile(training.TorchSGD(0.1, weight_decay=5e-4))
    return trainer


def weights_of(net):
    return {f"w{i}": np.asarray(w) for i, w in enumerate(net.weights)}


def one_step(framework, bn_mode, distribution):
    """Weights and logs after one step."""
    trainer = make_trainer(framework, distribution, bn_mode=bn_mode)
    data = distribution.train_dataset(tiny_splits(16).train, 16, seed=1)
    history = trainer.fit(data, steps_per_epoch=1, verbose=0).history
    return weights_of(trainer.net) | {name: history[name][0] for name in ("loss", "robust_accuracy")}


def frameworks(distributions):
    found = {f"start/one/{name}": value for name, value in weights_of(tiny_net("he")).items()}
    for framework, bn_mode in STEPS:
        for which, distribution in distributions.items():
            result = one_step(framework, bn_mode, distribution)
            found |= {f"{framework}-{bn_mode}/{which}/{name}": value for name, value in result.items()}
    return found


def unsynchronised(distribution):
    """Moving statistics of each replica, after a step in which each had its own."""
    trainer = make_trainer("pgd_at", distribution, synchronized=False)
    trainer.fit(distribution.train_dataset(tiny_splits(16).train, 16, seed=1), steps_per_epoch=1, verbose=0)
    moving = trainer.net.non_trainable_variables
    parts = [distribution.strategy.experimental_local_results(v.value) for v in moving]
    assert np.abs(np.asarray(parts[0][0])).max() > 0
    return {f"unsynchronised/{i}": np.concatenate([np.asarray(p[i]) for p in parts]) for i in range(2)}


def random_front(distribution):
    """The same images on both replicas after a random layer, and the loss of a step behind it."""
    with distribution.scope():
        layer = keras.layers.RandomTranslation(0.3, 0.3, seed=1)
        net = keras.Sequential([keras.Input((8, 8, 1)), layer, tiny_net("he")])
        trainer = training.PGDAT(net, attacks.PGD(0.1, steps=1))
        trainer.compile(training.TorchSGD(0.1))
    images = tf.constant(tiny_batch(8)[0])
    draw = tf.function(lambda: distribution.strategy.run(lambda: augmented([layer], images, 7)))
    parts = distribution.strategy.experimental_local_results(draw())
    data = distribution.train_dataset(tiny_splits(16).train, 16, seed=1)
    trainer.fit(data, steps_per_epoch=1, verbose=0)
    found = {f"random_front/{i}": np.asarray(part) for i, part in enumerate(parts)}
    return found | {"random_front/counts": trainer.crafted.read()}


def pieces(distributions):
    """Weights and their averages after two steps in parts; each part would have statistics of its own."""
    found = {}
    for number, settings in enumerate(PIECES):
        config = TrainConfig.from_flags(
            framework="trades", head="he", steps=2, epsilon=0.1, epochs=4, batch_size=16, precision="float64",
            validation_attack="pgd-1", augmentation="none", freeze="bn1", **settings,
        )  # fmt: skip
        for which, distribution in distributions.items():
            with distribution.scope(), small_cnn_of_one_layer():
                trainer = build.make_trainer(config, tiny_splits(32))
            data = distribution.train_dataset(tiny_splits(32).train, **config.stream_settings)
            trainer.fit(data, steps_per_epoch=2, epochs=2, verbose=0)
            weights = [np.ravel(w) for net in (trainer.net, trainer.averaged) for w in net.weights]
            found[f"pieces/{number}/{which}"] = np.concatenate(weights)
    return found


def noise_of_free_at(distributions, folder):
    """Weights and noise after two batches, the shapes of what is exchanged, and noise of other backups."""
    config = TrainConfig.from_flags(
        framework="free_at", replays=2, head="he", epsilon=0.1, epochs=4, batch_size=16, precision="float64",
        validation_attack="pgd-1", augmentation="none",
    )  # fmt: skip
    found, trainers = {}, {}
    for which, distribution in distributions.items():
        with distribution.scope(), small_cnn_of_one_layer():
            trainer = trainers[which] = build.make_trainer(config, tiny_splits(32))
        data = distribution.train_dataset(tiny_splits(32).train, **config.stream_settings)
        trainer.fit(data, steps_per_epoch=2, verbose=0)
        weights = [np.ravel(w) for w in trainer.net.weights]
        found[f"free_at/{which}"] = np.concatenate([*weights, np.ravel(whole_value(trainer.noise))])
        found[f"free_at/{which}/rows"] = trainer.noise.shape[0]
        save_state(f"{folder}/{which}.npz", trainer, RunProgress())
    two, trainer = distributions["two"].strategy, trainers["two"]
    step = tf.function(lambda x, y: two.run(trainer.train_step, args=((x, y),)), autograph=False)
    graph = step.get_concrete_function(tf.zeros([8, 8, 8, 1], tf.float64), tf.zeros([8], tf.int32)).graph
    exchanged = [op.outputs[0].shape for op in graph.get_operations() if op.type.startswith("Collective")]
    found["free_at/exchanged"] = [shape.num_elements() for shape in exchanged]
    found["free_at/trained"] = sum(np.size(w) for w in trainer.net.trainable_variables)
    for which, other in itertools.permutations(trainers, 2):
        load_state(f"{folder}/{which}.npz", trainers[other])
        found[f"free_at/{which} for {other}"] = np.ravel(whole_value(trainers[other].noise))
    return found


def statistics_of_swa(distributions):
    """Moving statistics by a pass over an epoch, and how many images of a batch the first device gets."""
    config, found = TrainConfig.from_flags(batch_size=16, augmentation="none"), {}
    for which, distribution in distributions.items():
        with distribution.scope():
            net = tiny_net("he")
            synchronize(net)
        source = distribution.train_dataset(tiny_splits(32).train, **config.stream_settings)
        first = next(iter(source))[0]
        parts = (
            (first,)
            if distribution.strategy is None
            else distribution.strategy.experimental_local_results(first)
        )
        found[f"swa/{which}/images"] = len(parts[0])
        statistics = StatisticsPass(net, distribution.strategy)
        statistics(build.epoch_batches(config, tiny_splits(32), 0, distribution))
        found[f"swa/{which}"] = np.concatenate([np.ravel(v) for v in net.non_trainable_variables])
    return found


class Stop(Exception):
    pass


def run(distribution, folder, stop_after=None):
    """A run of the programs on `distribution`, optionally interrupted after a step and resumed."""
    config = TrainConfig(
        framework="pgd_at", head="he", steps=1, epsilon=0.1, epochs=2, batch_size=16, workdir=folder,
        learning_rate=0.01, lr_drops=(1.0,), validation_attack="pgd-1", backup_minutes=0.0,
    )  # fmt: skip
    splits = tiny_splits(32)
    # 6 images to validate on: the second replica has only images of no weight.
    few = ImageSet(splits.train.images[:6], splits.train.labels[:6])
    splits = Splits(
        **{f.name: getattr(splits, f.name) for f in dataclasses.fields(splits)} | {"validation": few}
    )

    def stop():
        raise Stop

    def go():
        with small_cnn_of_one_layer():
            return train(
                config, splits, Workdir(folder), write=lambda *a, **k: None, distribution=distribution
            )

    if stop_after is not None:
        with contextlib.suppress(Stop), after_step(stop_after, stop):
            go()
    trainer = go()
    flat = np.concatenate([np.asarray(w).ravel() for w in trainer.net.weights])
    saved = athe_tf.load_model(Workdir(folder).final)
    np.testing.assert_array_equal(flat, np.concatenate([np.asarray(w).ravel() for w in saved.weights]))
    exported = athe_tf.victim(Workdir(folder).saved_model)
    x = tiny_batch(4)[0]
    np.testing.assert_allclose(exported.logits(x), saved(x), atol=1e-5)
    rows = np.genfromtxt(Workdir(folder).metrics, delimiter=",", names=True)
    return flat, rows["val_loss"]


def runs(distributions):
    with tempfile.TemporaryDirectory() as folder:
        one, one_loss = run(distributions["one"], f"{folder}/one")
        interrupted, loss = run(distributions["two"], f"{folder}/interrupted", stop_after=1)
    names = ("run/one", "run/interrupted", "run/one_val_loss", "run/val_loss")
    return dict(zip(names, (one, interrupted, one_loss, loss), strict=True))


def compiled_crafting(distribution):
    """Weights after a step with and without XLA, and the message for a framework that it cannot help."""
    found = {}
    for compiled in (False, True):
        with distribution.scope():
            net = tiny_net("he")
            synchronize(net)
            trainer = training.TRADES(net, attacks.PGD(0.1, "l2", steps=2), margin=0.2)
            trainer.compile(training.TorchSGD(0.1), jit_compile=compiled)
        data = distribution.train_dataset(tiny_splits(16).train, 16, seed=1)
        trainer.fit(data, steps_per_epoch=1, verbose=0)
        found[f"xla/{compiled}"] = np.concatenate([np.ravel(w) for w in net.weights])
    found["xla/counts"] = trainer.crafted.read()
    found["xla/compiled"] = [trainer.compiles_crafting, trainer.jit_compile]
    with distribution.scope():
        trainer = training.FreeAT(tiny_net("he"), attacks.FGSM(0.1), batch_size=16)
    try:
        trainer.compile(jit_compile=True)
    except InputError as error:
        found["xla/refused"] = str(error)
    return found


def selftest_of(distribution):
    """What the self-test says of these replicas, and of replicas that keep their gradients for themselves."""
    machine, found = selftest_checks.Machine(distribution), {}
    own = mock.patch.object(keras.optimizers.Optimizer, "_all_reduce_sum_gradients", lambda self, each: each)
    for name, context in (("as_it_is", contextlib.nullcontext()), ("without_reduction", own)):
        machine.updates = {key: value for key, value in machine.updates.items() if key[1]}
        with context:
            findings = selftest_checks.run_checks(machine, ("replicas",), print)
        found[f"selftest/{name}"] = [one.passed for one in findings]
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    return found | {"selftest/deterministic": [arithmetic.is_op_determinism_enabled(), tf32]}


def uneven(distributions):
    """Keras splits 11 images as 8 and 3, or 6 and 5: the metrics are those of 11 images all the same."""
    x, y = tiny_batch(11)
    found = {}
    for which, distribution in distributions.items():
        trainer = make_trainer("pgd_at", distribution)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
        logs = trainer.evaluate(data, verbose=0, return_dict=True)
        found[f"uneven/{which}"] = [logs[name] for name in sorted(logs)]
    return found


def refused(distribution):
    """The message for a training batch that may have any size."""
    trainer = make_trainer("standard", distribution)
    try:
        trainer.fit(tf.data.Dataset.from_tensor_slices(tiny_batch(16)).batch(16), verbose=0)
    except InputError as error:
        return {"refused": str(error)}
    return {"refused": "nothing"}


def wrong_values(distribution):
    """The message for a batch whose second half, that of the second replica, is in 0..255."""
    trainer = make_trainer("pgd_at", distribution)
    x, y = tiny_batch(16)
    x[8:] *= 255
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16, drop_remainder=True)
    found = {}
    for name in ("fit", "evaluate"):
        try:
            getattr(trainer, name)(data, verbose=0)
            found[f"wrong_values/{name}"] = "nothing"
        except InputError as error:
            found[f"wrong_values/{name}"] = str(error)
    return found


def memory(distribution):
    """Bytes of a set of images, and by how much the process grew when two replicas read it."""
    images = np.full([120_000, 32, 32, 1], 7, "uint8")
    source = ImageSet(images, np.arange(len(images)) % 10)
    next(iter(source.stream(256, seed=0)))
    before = resident()
    batches = iter(distribution.train_dataset(source, 256, seed=0))
    for _ in range(3):
        next(batches)
    return {"memory": [images.nbytes, resident() - before]}


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def evaluation(devices):
    """Flags and costs of a cascade with and without replicas, and where it ran."""
    net = tiny_net("he")
    x, _ = tiny_batch(40)
    y = np.argmax(net(x), axis=-1)
    seen = []
    original = driver._Stage._record

    def record(stage, images, rounds, outcome):
        seen.append((len(images), outcome.success.device.rpartition("device:")[2]))
        return original(stage, images, rounds, outcome)

    found = {}
    for which, target in (("one", athe_tf.victim(net)), ("two", replicated_victim(net, devices))):
        seen.clear()
        driver._Stage._record = record
        try:
            results = [
                attacks.get(name, epsilon=0.02).run(target, x, y, batch_size=10, seed=5)
                for name in ("pgd-3x2", "square-20")
            ]
        finally:
            driver._Stage._record = original
        found[f"evaluation/{which}"] = np.stack([result.success for result in results])
        found[f"evaluation/queries_{which}"] = np.stack([result.queries for result in results])
    assert 0 < found["evaluation/one"].mean() < 1
    found["evaluation/sizes"] = [size for size, _ in seen]
    found["evaluation/devices"] = sorted({device for _, device in seen})
    return found


def main() -> None:
    # Collectives of both sizes cannot be in one process.
    initialize(DistributionSettings("mirrored", ("cpu",), cpu_replicas=4))
    summed = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(4)], tf.distribute.ReductionToOneDevice()
    )
    two = Distribution(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    distributions = {"one": Distribution(), "two": two}
    found = (
        frameworks(distributions)
        | unsynchronised(two)
        | random_front(two)
        | runs(distributions)
        | uneven(distributions)
        | pieces(distributions)
        | statistics_of_swa(distributions)
        | refused(two)
        | compiled_crafting(two)
        | wrong_values(two)
    )
    with tempfile.TemporaryDirectory() as folder:
        found |= noise_of_free_at(distributions | {"four": Distribution(summed)}, folder)
    found |= memory(two) | evaluation(["CPU:0", "CPU:1"]) | selftest_of(two)
    np.savez(sys.argv[1], **found)


if __name__ == "__main__":
    main()
