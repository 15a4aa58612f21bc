"""What `bin/selftest` checks: each function compares the devices under test with one CPU, or themselves."""

import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import psutil
import tensorflow as tf

from athe_tf import data, models, training
from athe_tf.attacks import registry
from athe_tf.distribution.strategy import Distribution
from athe_tf.layers.batch_norm import BatchNorm
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.victim import replicated_victim
from athe_tf.programs.build import make_trainer
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.precision import check_precision
from athe_tf.programs.run_state import RunProgress, load_state, save_state
from athe_tf.training.options import FRAMEWORKS, OPTIONS
from athe_tf.utils import arithmetic
from athe_tf.utils.errors import InputError, NotApplicable, described, first_line

#: The largest accepted difference of two updates, relative to their length; and share of flags that differ.
ROUNDING, DOUBLE, HALF, FLAGS = 1e-3, 1e-9, 0.2, 0.02
ATTACKS = ("pgd-10", "apgd-ce-10", "apgd-t-10", "fab-t-10", "square-100", "cr")
EPSILON, BATCH, IMAGES = 0.5, 32, 96


def smooth_net(num_classes: int, input_shape):
    """A network without kinks, which would turn rounding errors into other gradients."""
    inputs = keras.Input(input_shape, dtype=keras.config.dtype_policy().variable_dtype)
    hidden = keras.layers.Conv2D(8, 3, strides=2, use_bias=False)(inputs)
    hidden = keras.layers.Activation("softplus")(BatchNorm()(hidden))
    return keras.Model(inputs, CosineDense(num_classes, name="head")(keras.layers.Flatten()(hidden)))


@dataclasses.dataclass
class Finding:
    """One line of the table; `passed` is `None` if it is for information, or was not run."""

    name: str
    measured: str
    passed: bool | None = None


class Machine:
    """Trainers on the devices under test, and on one CPU."""

    def __init__(self, distribution: Distribution):
        self.devices = distribution
        self.cpu = Distribution(tf.distribute.OneDeviceStrategy("/CPU:0"))
        self.batch = -(-BATCH // distribution.replicas) * distribution.replicas
        splits = data.load("digits")
        self.splits = dataclasses.replace(splits, train=splits.train.part(4 * self.batch), validation=None)
        self.updates: dict = {}
        self.names = ["GPU:0" if tf.config.get_visible_devices("GPU") else "CPU:0"]
        if distribution.strategy is not None:
            self.names = list(distribution.strategy.extended.worker_devices)

    def settings(self, framework: str, **changes) -> TrainConfig:
        """A short run, with steps along the gradient itself if the framework has them: signs may flip."""
        given: dict[str, Any] = {"model": f"{__name__}:smooth_net", "epsilon": EPSILON, "norm": "l2"}
        given |= {"batch_size": self.batch, "augmentation": "none", "epochs": 4, "validation_attack": "pgd-1"}
        if "l2" not in OPTIONS[framework].norms:
            given |= {"norm": "linf", "epsilon": EPSILON / 10}
        return TrainConfig.from_flags(framework=framework, **given | changes)

    def trainer(self, config: TrainConfig, on: Distribution | None = None):
        """What `bin/train` would train, with the same weights in every precision."""
        with (on or self.devices).scope():
            trainer, rng = make_trainer(config, self.splits), np.random.default_rng(0)
            for weight in trainer.net.trainable_variables:
                if len(weight.shape) > 1:
                    weight.assign(rng.normal(0, np.prod(weight.shape[:-1]) ** -0.5, weight.shape))
        return trainer

    def train(self, trainer, config: TrainConfig, steps: int, start: int = 0, on=None) -> np.ndarray:
        """All weights in one vector, after some steps from step `start` on."""
        stream = config.stream_settings | {"start_step": start}
        if steps:
            batches = (on or self.devices).train_dataset(self.splits.train, **stream)
            trainer.fit(batches, steps_per_epoch=steps, verbose=0, shuffle=False)
        return np.concatenate([np.ravel(np.asarray(weight, "float64")) for weight in trainer.net.weights])

    def update(self, config: TrainConfig, on: Distribution | None = None) -> np.ndarray:
        """By how much one step changes the weights."""
        key = (str(config), on is self.cpu)
        if key not in self.updates:
            trainer = self.trainer(config, on)
            before, after = (self.train(trainer, config, steps, on=on) for steps in (0, 1))
            self.updates[key] = after - before
        return self.updates[key]

    def compared(self, name: str, framework="trades", limit: float = ROUNDING, **changes) -> Finding:
        """The update of a step on the devices, beside that in float64 on the CPU; NaN does not pass."""
        exact = self.update(self.settings(framework, precision="float64"), self.cpu)
        error = self.update(self.settings(framework, **changes)) - exact
        distance = float(np.linalg.norm(error) / np.linalg.norm(exact))
        return Finding(name, f"{distance:.1e} (limit {limit:g})", distance <= limit)


def frameworks(machine: Machine) -> Iterator[Finding]:
    """One step of every framework in float32 on all devices."""
    for name in FRAMEWORKS:
        yield from attempted(f"step of {name}", machine.compared, name)


def replicas(machine: Machine) -> Iterator[Finding]:
    """The same step on all devices and on one: in float64, all that is left is a missing reduction."""
    count = machine.devices.replicas
    if count == 1 or "TPU" in machine.names[0]:
        raise NotApplicable("there is one device." if count == 1 else "a TPU does not compute in float64.")
    yield machine.compared(f"{count} replicas and one device", limit=DOUBLE, precision="float64")


def seeds(machine: Machine) -> Iterator[Finding]:
    """Random starts differ from step to step."""
    trainer = machine.trainer(machine.settings("pgd_at", steps=1), machine.cpu)
    x, y = next(iter(machine.splits.train.batches(machine.batch)))
    crafted = []
    for step in (0, 1, 0):
        trainer.optimizer.iterations.assign(step)
        crafted.append(trainer.craft(tf.convert_to_tensor(x), tf.cast(y, tf.int32)).numpy())
    moved, same = (float(np.abs(crafted[0] - other).max()) for other in crafted[1:])
    yield Finding("random starts change from step to step", f"by up to {moved:.2g}", moved > 1e-3)
    yield Finding("random starts of the same step are the same", f"up to {same:.2g}", same == 0)


def determinism(machine: Machine) -> Iterator[Finding]:
    """Two steps, a backup, and two more: again, and from the backup in a new trainer."""
    config = machine.settings("free_at", replays=2)
    trainer = machine.trainer(config)
    machine.train(trainer, config, 2)
    with tempfile.TemporaryDirectory() as folder:
        backup = pathlib.Path(folder, "backup.npz")
        save_state(backup, trainer, RunProgress())
        first = machine.train(trainer, config, 2, start=2)
        for name, each in (("repeated steps", trainer), ("resumed from a backup", machine.trainer(config))):
            load_state(backup, each)
            bits = first == machine.train(each, config, 2, start=2)
            yield Finding(f"{name}: bit-identical weights", f"{bits.mean():.2%}", bool(bits.all()))


def precision(machine: Machine) -> Iterator[Finding]:
    """A step in mixed precision, where `bin/train` allows it."""

    def half(name: str, policy: str) -> Finding:
        try:
            check_precision(policy)
        except InputError as error:
            raise NotApplicable(f"{first_line(error).partition('. ')[0]}.") from error
        return machine.compared(name, limit=HALF, precision=policy)

    for policy in ("mixed_bfloat16", "mixed_float16"):
        yield from attempted(f"step in {policy}", half, policy)


def xla(machine: Machine) -> Iterator[Finding]:
    """A step compiled by XLA; on several replicas its attack is."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    trainer = machine.trainer(machine.settings("trades", jit_compile=True))
    compiled = bool(trainer.jit_compile or trainer.compiles_crafting)
    yield Finding("XLA compiles a step, or its attack", "yes" if compiled else "no", compiled)
    yield machine.compared("step compiled by XLA", jit_compile=True)


def attacks(machine: Machine) -> Iterator[Finding]:
    """Flags of attacks on all devices, beside those of one CPU."""
    if "TPU" in machine.names[0]:
        raise NotApplicable("evaluations do not use a TPU.")
    config = machine.settings("pgd_at", epochs=40, learning_rate=0.5)
    trainer = machine.trainer(config, machine.cpu)
    machine.train(trainer, config, 100, on=machine.cpu)
    tested = [replicated_victim(trainer.net, names) for names in (machine.names, ["CPU:0"])]
    x, y = machine.splits.test.arrays(IMAGES)

    def flags(name: str, attack: str) -> Finding:
        one = registry.get(attack, epsilon=0.1)
        here, there = (one.run(victim, x, y, batch_size=BATCH).success for victim in tested)
        differ, robust = float((here != there).mean()), float((~there).mean())
        measured = f"{differ:.1%} of {len(x)} images differ, {robust:.0%} robust"
        return Finding(name, measured, differ <= FLAGS and 0 < robust < 1)

    for attack in ATTACKS:
        yield from attempted(f"flags of {attack}", flags, attack)


def speed(machine: Machine) -> Iterator[Finding]:
    """Images per second of PGD-AT with ten steps, beside a plain Keras step of the same network."""
    on_cpu = "CPU" in machine.names[0]
    name, size, steps = ("small_cnn", 32, 3) if on_cpu else ("preact_resnet18", 128, 10)
    size *= machine.devices.replicas
    x = np.random.default_rng(0).uniform(size=(size, 32, 32, 3)).astype("float32")
    batches = tf.data.Dataset.from_tensors((x, (np.arange(size) % 10).astype("int32"))).repeat()
    rates: list[float] = []
    for label in ("plain Keras", "PGD-AT (10 steps)"):
        with machine.devices.scope():
            trainer: Any = models.build(name, num_classes=10, input_shape=x.shape[1:])
            trainer = training.PGDAT(trainer, "pgd-10", epsilon=8 / 255) if rates else trainer
            loss = None if rates else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            trainer.compile("sgd", loss=loss, jit_compile=False)
        trainer.fit(batches, steps_per_epoch=1, verbose=0, shuffle=False)
        began = time.perf_counter()
        trainer.fit(batches, steps_per_epoch=steps, verbose=0, shuffle=False)
        rates.append(steps * size / (time.perf_counter() - began))
        yield Finding(f"{label}, {name}, batch {size}", f"{rates[-1]:.0f} images/s")
    yield Finding("time of PGD-AT over plain Keras", f"{rates[0] / rates[1]:.1f}")


def memory(machine: Machine) -> Iterator[Finding]:
    """The memory of this process, and the peak of each GPU."""
    yield Finding("memory of this process", f"{psutil.Process().memory_info().rss / 1e6:.0f} MB")
    for device in tf.config.list_logical_devices("GPU"):
        peak = tf.config.experimental.get_memory_info(device.name.removeprefix("/device:"))["peak"]
        yield Finding(f"peak memory of {device.name}", f"{peak / 1e6:.0f} MB")


def attempted(name: str, function: Callable, *arguments) -> Iterator[Finding]:
    """What `function` of a name finds; an error is a finding that did not pass."""
    try:
        found = function(name, *arguments)
        yield from [found] if isinstance(found, Finding) else found
    except NotApplicable as error:
        yield Finding(name, f"not run: {error}")
    except Exception as error:
        yield Finding(name, described(error), False)


def run_checks(machine: Machine, names: Sequence[str], write: Callable) -> list[Finding]:
    """Runs checks by their names, and writes a line for each finding."""
    found = []
    for name in names:
        if name not in ("speed", "xla"):  # Keras does not compile by XLA then
            arithmetic.make_deterministic()
        for one in attempted(name, lambda name: globals()[name](machine)):
            found.append(one)
            word = {True: "passed", False: "FAILED", None: ""}[one.passed]
            write(f"{word:<7} {one.name:<48} {one.measured}", flush=True)
    return found
