"""`bin/selftest`: whether this machine's GPUs, TPU or CPU compute what athe_tf computes elsewhere."""

import dataclasses
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from athe_tf.programs.command_line import Program, print_line, warnings_as_lines
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.fields import DeviceOptions, check_folder, flag
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.training.options import FRAMEWORKS, OPTIONS
from athe_tf.utils.errors import InputError, NotApplicable, check, described, first_line
from athe_tf.utils.files import write_text
from athe_tf.utils.options import check_options, option, with_help
from athe_tf.utils.registry import unknown_name

#: The largest accepted difference of two updates of all weights, relative to the length of the update.
ROUNDING, DOUBLE, HALF = 1e-3, 1e-9, 0.2
#: The largest accepted share of images whose flag depends on the device.
FLAGS = 0.02
# Attacks whose flags are compared: fixed steps, adaptive steps, a boundary attack, a black-box one, and ours.
ATTACKS = ("pgd-10", "apgd-ce-10", "apgd-t-10", "fab-t-10", "square-100", "cr")
NETWORK = "athe_tf.programs.selftest:smooth_net"
EPSILON, BATCH, IMAGES = 0.5, 32, 96
GROUPS = ("speed", "xla", "frameworks", "replicas", "seeds", "determinism", "precision", "attacks", "memory")
# Those that op determinism would change: Keras does not compile by XLA then.
AS_BY_DEFAULT = ("speed", "xla")


@dataclasses.dataclass(frozen=True)
class SelftestConfig(DeviceOptions):
    """What to test, and on what."""

    distribution: str = with_help(
        DeviceOptions, "distribution", "auto, one (device), mirrored (all GPUs of this machine) or tpu."
    )
    only: tuple[str, ...] = option((), f"Only these checks: {', '.join(GROUPS)}. [all]")
    output: str | None = option(None, "Also write the results to this file, as JSON for a bug report.")

    def __post_init__(self):
        check_folder(self, "output")
        check_options(self, flag)
        for name in self.only:
            if name not in GROUPS:
                raise unknown_name("check", name, GROUPS)
        check(
            self.distribution != "multi_worker",
            "The self-test is about one machine. Received: --distribution=multi_worker. Run it on each.",
        )


def smooth_net(num_classes: int, input_shape):
    """A network without kinks, which would turn rounding errors into other gradients."""
    import keras

    from athe_tf.layers.batch_norm import BatchNorm
    from athe_tf.layers.cosine_dense import CosineDense

    inputs = keras.Input(input_shape, dtype=keras.config.dtype_policy().variable_dtype)
    hidden = keras.layers.Conv2D(8, 3, strides=2, use_bias=False)(inputs)
    hidden = keras.layers.Activation("softplus")(BatchNorm()(hidden))
    return keras.Model(inputs, CosineDense(num_classes, name="head")(keras.layers.Flatten()(hidden)))


class Machine:
    """Trainers on the devices under test, and on one CPU."""

    def __init__(self, distribution):
        import tensorflow as tf

        from athe_tf import data
        from athe_tf.distribution.strategy import Distribution

        self.devices = distribution
        self.cpu = Distribution(tf.distribute.OneDeviceStrategy("/CPU:0"))
        self.batch = -(-BATCH // distribution.replicas) * distribution.replicas
        splits = data.load("digits")
        self.splits = dataclasses.replace(splits, train=splits.train.part(4 * self.batch), validation=None)
        self._updates: dict = {}

    @property
    def names(self) -> list[str]:
        """The names of the devices under test."""
        import tensorflow as tf

        if self.devices.strategy is not None:
            return list(self.devices.strategy.extended.worker_devices)
        return ["GPU:0" if tf.config.get_visible_devices("GPU") else "CPU:0"]

    @property
    def is_tpu(self) -> bool:
        """Whether the devices are those of a TPU."""
        return "TPU" in self.names[0]

    def settings(self, framework: str, **changes) -> TrainConfig:
        """A short run, with steps along the gradient itself if the framework has them: signs may flip."""
        given: dict[str, Any] = {"framework": framework, "model": NETWORK, "epsilon": EPSILON, "norm": "l2"}
        given |= {"batch_size": self.batch, "augmentation": "none", "epochs": 4, "validation_attack": "pgd-1"}
        if "l2" not in OPTIONS[framework].norms:
            given |= {"norm": "linf", "epsilon": EPSILON / 10}
        return TrainConfig.from_flags(**given | changes)

    def trainer(self, config: TrainConfig, on=None):
        """What `bin/train` would train, with the same weights in every precision."""
        from athe_tf.programs.build import make_trainer

        with (on or self.devices).scope():
            trainer, rng = make_trainer(config, self.splits), np.random.default_rng(0)
            for weight in trainer.net.trainable_variables:
                if len(weight.shape) > 1:
                    weight.assign(rng.normal(0, np.prod(weight.shape[:-1]) ** -0.5, weight.shape))
        return trainer

    def train(self, trainer, config: TrainConfig, steps: int, start: int = 0, on=None) -> np.ndarray:
        """All weights, after some steps from step `start` on."""
        stream = config.stream_settings | {"start_step": start}
        batches = (on or self.devices).train_dataset(self.splits.train, **stream)
        trainer.fit(batches, steps_per_epoch=steps, verbose=0, shuffle=False)
        return weights_of(trainer)

    def update(self, config: TrainConfig, on=None) -> np.ndarray:
        """By how much one step changes the weights."""
        key = (str(config), on is self.cpu)
        if key not in self._updates:
            trainer = self.trainer(config, on)
            before = weights_of(trainer)
            self._updates[key] = self.train(trainer, config, 1, on=on) - before
        return self._updates[key]

    def exact(self, framework: str) -> np.ndarray:
        """The update in float64 on the CPU."""
        return self.update(self.settings(framework, precision="float64"), self.cpu)


def weights_of(trainer) -> np.ndarray:
    """All weights in one vector."""
    return np.concatenate([np.ravel(np.asarray(weight, "float64")) for weight in trainer.net.weights])


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The length of the difference of two updates, in units of the second; NaN if a value is none."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


@dataclasses.dataclass
class Finding:
    """One line of the table.

    Attributes:
        name: What was tested.
        measured: What was measured, as text.
        passed: `None` if it is for information, or was not run.
    """

    name: str
    measured: str
    passed: bool | None = None

    def __post_init__(self):
        self.passed = None if self.passed is None else bool(self.passed)


def within(name: str, measured: float, limit: float) -> Finding:
    """A difference that must not be larger than a limit; NaN is not within it."""
    return Finding(name, f"{measured:.1e} (limit {limit:g})", measured <= limit)


def frameworks(machine: Machine) -> Iterator[Finding]:
    """One step of every framework in float32 on all devices, beside float64 on one CPU."""
    for name in FRAMEWORKS:
        yield from attempted(
            f"step of {name}",
            lambda name: within(
                f"step of {name}",
                distance(machine.update(machine.settings(name)), machine.exact(name)),
                ROUNDING,
            ),
            name,
        )


def replicas(machine: Machine) -> Iterator[Finding]:
    """The same step on all devices and on one, in float64: all that is left is a missing reduction."""
    if machine.devices.replicas == 1:
        raise NotApplicable("there is one device.")
    if machine.is_tpu:
        raise NotApplicable("a TPU does not compute in float64.")
    on_all = machine.update(machine.settings("trades", precision="float64"))
    yield within(
        f"{machine.devices.replicas} replicas and one device, float64",
        distance(on_all, machine.exact("trades")),
        DOUBLE,
    )


def seeds(machine: Machine) -> Iterator[Finding]:
    """Random starts differ from step to step, and not from device to device."""
    import tensorflow as tf

    trainer = machine.trainer(machine.settings("pgd_at", steps=1), machine.cpu)
    x, y = next(iter(machine.splits.train.batches(machine.batch)))
    crafted = []
    for step in (0, 1, 0):
        trainer.optimizer.iterations.assign(step)
        crafted.append(trainer.craft(tf.convert_to_tensor(x), tf.cast(y, tf.int32)).numpy())
    moved = float(np.abs(crafted[1] - crafted[0]).max())
    yield Finding("random starts change from step to step", f"by up to {moved:.2g}", moved > 1e-3)
    same = bool(np.array_equal(crafted[0], crafted[2]))
    yield Finding("random starts of the same step are the same", "yes" if same else "no", same)


def determinism(machine: Machine) -> Iterator[Finding]:
    """Two steps, a backup, and two more: again, and from the backup in a new trainer."""
    from athe_tf.programs.run_state import RunProgress, load_state, save_state

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
    """A step in mixed precision, beside float64."""
    from athe_tf.programs.precision import check_precision

    def half(policy):
        try:
            check_precision(policy)
        except InputError as error:
            raise NotApplicable(first_line(error).partition(". ")[0] + ".") from error
        found = machine.update(machine.settings("trades", precision=policy))
        return within(f"step in {policy}", distance(found, machine.exact("trades")), HALF)

    for policy in ("mixed_bfloat16", "mixed_float16"):
        yield from attempted(f"step in {policy}", half, policy)


def xla(machine: Machine) -> Iterator[Finding]:
    """A step compiled by XLA, beside float64; on several replicas its attack is."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    config = machine.settings("trades", jit_compile=True)
    trainer = machine.trainer(config)
    compiled = trainer.jit_compile or trainer.compiles_crafting
    yield Finding("XLA compiles a step, or its attack", "yes" if compiled else "no", compiled)
    yield within("step compiled by XLA", distance(machine.update(config), machine.exact("trades")), ROUNDING)


def attacks(machine: Machine) -> Iterator[Finding]:
    """Flags of attacks on all devices, beside those of one CPU."""
    from athe_tf.attacks import registry
    from athe_tf.models.victim import replicated_victim

    if machine.is_tpu:
        raise NotApplicable("evaluations do not use a TPU.")
    config = machine.settings("pgd_at", epochs=40, learning_rate=0.5)
    trainer = machine.trainer(config, machine.cpu)
    machine.train(trainer, config, 100, on=machine.cpu)
    tested = [replicated_victim(trainer.net, names) for names in (machine.names, ["CPU:0"])]
    x, y = machine.splits.test.arrays(IMAGES)

    def flags_differ(name):
        attack = registry.get(name, epsilon=0.1)
        found = [attack.run(victim, x, y, batch_size=BATCH).success for victim in tested]
        share = float(np.mean(found[0] != found[1]))
        detail = f"{share:.1%} of {len(x)} images differ, {1 - found[1].mean():.0%} robust"
        return Finding(f"flags of {name}", detail, share <= FLAGS and 0 < found[1].mean() < 1)

    for name in ATTACKS:
        yield from attempted(f"flags of {name}", flags_differ, name)


def speed(machine: Machine) -> Iterator[Finding]:
    """Images per second of PGD-AT with ten steps, beside a plain Keras step of the same network."""
    import keras
    import tensorflow as tf

    from athe_tf import models, training

    accelerated = "CPU" not in machine.names[0]
    name, batch = ("preact_resnet18", 128) if accelerated else ("small_cnn", 32)
    batch *= machine.devices.replicas
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(batch, 32, 32, 3)).astype("float32")
    data = tf.data.Dataset.from_tensors((x, (np.arange(batch) % 10).astype("int32"))).repeat()
    found, steps = {}, 10 if accelerated else 3
    for label in ("plain Keras", "PGD-AT (10 steps)"):
        with machine.devices.scope():
            net: Any = models.build(name, num_classes=10, input_shape=x.shape[1:])
            if label == "plain Keras":
                loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
                net.compile("sgd", loss, jit_compile=False)
            else:
                net = training.PGDAT(net, "pgd-10", epsilon=8 / 255)
                net.compile("sgd")
        net.fit(data, steps_per_epoch=1, verbose=0, shuffle=False)
        began = time.perf_counter()
        net.fit(data, steps_per_epoch=steps, verbose=0, shuffle=False)
        found[label] = steps * batch / (time.perf_counter() - began)
        yield Finding(f"{label}, {name}, batch {batch}", f"{found[label]:.0f} images/s")
    ratio = found["plain Keras"] / found["PGD-AT (10 steps)"]
    yield Finding("time of PGD-AT over plain Keras", f"{ratio:.1f} (23 passes to 3: 7.7)")


def memory(machine: Machine) -> Iterator[Finding]:
    """The most memory that was in use."""
    import psutil
    import tensorflow as tf

    host = psutil.Process().memory_info().rss
    yield Finding("memory of this process", f"{host / 1e6:.0f} MB")
    for device in tf.config.list_logical_devices("GPU"):
        peak = tf.config.experimental.get_memory_info(device.name.removeprefix("/device:"))["peak"]
        yield Finding(f"peak memory of {device.name}", f"{peak / 1e6:.0f} MB")


def attempted(name: str, function: Callable, *arguments) -> Iterator[Finding]:
    """What a check finds, one finding or several; an error is a finding that did not pass."""
    try:
        found = function(*arguments)
        yield from [found] if isinstance(found, Finding) else found
    except NotApplicable as error:
        yield Finding(name, f"not run: {error}")
    except Exception as error:
        yield Finding(name, described(error), False)


def run_checks(machine: Machine, names=GROUPS, write: Callable = print_line) -> list[Finding]:
    """Runs groups of checks in their order, and writes a line for each finding."""
    from athe_tf.utils.arithmetic import make_deterministic

    found = []
    for name in GROUPS:
        if name not in names:
            continue
        if name not in AS_BY_DEFAULT:
            make_deterministic()
        for one in attempted(name, globals()[name], machine):
            found.append(one)
            word = {True: "passed", False: "FAILED", None: ""}[one.passed]
            write(f"{word:<7} {one.name:<48} {one.measured}", flush=True)
    return found


def action(config: SelftestConfig, extra: dict) -> int:
    """Runs the checks, prints a table, and returns 0 if all of them passed, else 1."""
    settings = config.distribution_settings()
    start_tensorflow()
    import tensorflow as tf

    from athe_tf.distribution.strategy import initialize
    from athe_tf.results.result import versions_in_use
    from athe_tf.utils.arithmetic import arithmetic

    tf.get_logger().setLevel("ERROR")  # it warns of tracing many steps
    began = time.monotonic()
    facts: dict[str, Any] = {"versions": versions_in_use()}
    with warnings_as_lines("bin/selftest"):
        # Without the workers of the environment: the test is about one machine.
        tpu = {name: os.environ[name] for name in ("TPU_NAME",) if name in os.environ}
        machine = Machine(initialize(settings.resolve(tpu), write=print_line))
        facts |= {"default": arithmetic(), "devices": machine.names}
        print_line(
            "; ".join([*(f"{k} {v}" for k, v in facts["versions"].items()), facts["default"]["device"]])
        )
        found = run_checks(machine, config.only or GROUPS)
    failed = [one.name for one in found if one.passed is False]
    facts |= {"seconds": round(time.monotonic() - began, 1), "passed": not failed}
    if config.output is not None:
        facts["checks"] = [dataclasses.asdict(one) for one in found]
        write_text(pathlib.Path(config.output), json.dumps(facts, indent=2) + "\n")
        print_line(f"Written to {config.output}.")
    passed = sum(one.passed is True for one in found)
    print_line(f"{passed} passed, {len(failed)} failed, in {facts['seconds']:.0f} s.")
    return 1 if failed else 0


EXAMPLES = """
bin/selftest --output=selftest.json
bin/selftest --devices=0,1
bin/selftest --cpu_replicas=2
"""
SUMMARY = "tests the devices of this machine: numbers, resume, mixed precision, XLA, attacks and speed."
PROGRAM = Program("bin/selftest", SUMMARY, EXAMPLES, SelftestConfig, action)
main = PROGRAM.run

if __name__ == "__main__":
    main()
