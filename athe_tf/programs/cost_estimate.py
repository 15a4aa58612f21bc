"""Estimates the cost of a run from its config and a few measured steps."""

import dataclasses
import math
import time
from collections.abc import Callable

from athe_tf.evaluation.plan import peak_memory
from athe_tf.programs.accelerators import Accelerator, operations
from athe_tf.programs.build import make_trainer, make_validation_attack
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.heartbeat import Heartbeat
from athe_tf.programs.precision import convolution_times, on_accelerator
from athe_tf.report.comparison import aligned
from athe_tf.utils.number_format import format_duration

# A step that would take longer is measured on fewer images and scaled.
PATIENCE = 30.0
FEW_IMAGES = 8


def describe_plan(
    config: TrainConfig, splits, write: Callable = print, device: Accelerator | None = None
) -> str:
    """Steps, network passes, measured seconds per step, total time and memory, as text.

    `write` is called with a line when measuring begins, and with one every minute. For a `device` that is
    not here, there is a row with the time on it.
    """
    began = time.monotonic()
    with Heartbeat(write, lambda: f"Measuring, {format_duration(time.monotonic() - began)} so far.") as lines:
        lines.write(f"Building {config.model}, and measuring training steps.")
        trainer = make_trainer(config, splits)
        seconds, note = seconds_per_step(trainer, config, splits)
        in_bfloat16 = bfloat16_row(config, splits, seconds)
    cost = trainer.cost()
    steps = splits.train.steps_per_epoch(config.batch_size)
    validation = 0 if splits.validation is None else len(splits.validation)
    # Passes per image of the attack that measures robust validation accuracy.
    attacked = make_validation_attack(config).schedule.craft_passes(trainer.victim(training=False))
    checks = seconds_of_validation(config, attacked, cost, seconds, validation)
    total = config.epochs * (steps * seconds + checks)
    passes = sum(cost)
    weights = trainer.net.count_params()
    there = []
    if device is not None:
        half, each = config.precision != "float32", operations(trainer.net, splits.image_shape)
        images = steps * config.batch_size * passes + validation * (attacked + 2)
        other = format_duration(device.seconds(config.epochs * images * each, half))
        there = [(f"on {device.name}", f"about {other}, {device.basis(each, half)}")]
    rows = [
        ("run", f"{config.framework}, {config.model} ({weights:,} weights), head {config.head}"),
        ("data", f"{config.dataset}, {len(splits.train):,} training and {validation:,} validation images"),
        ("images", described_exposure(splits.train.exposure(config.batch_size, config.epochs))),
        ("steps", f"{steps:,} per epoch, {config.epochs} epochs, {steps * config.epochs:,} in total"),
        (
            "passes per step",
            f"{cost.forward} forward, {cost.backward_input} backward to the input, "
            f"{cost.backward_weights} to the weights: {passes}, {passes / 3:.1f} times standard training",
        ),
        ("validation", f"{config.validation_attack}, about {attacked:.0f} passes per image"),
        ("seconds per step", f"{seconds:.3g} ({note})"),
        *in_bfloat16,
        ("time per epoch", f"{format_duration(steps * seconds + checks)}, validation included"),
        ("total time", f"about {format_duration(total)} on this machine"),
        *there,
        ("memory", f"{peak_memory():.1f} GiB at most while measuring"),
    ]
    return "\n".join(f"{name + ':':<18}{text}" for name, text in rows)


def bfloat16_row(config: TrainConfig, splits, seconds: float) -> list[tuple[str, str]]:
    """How long a step takes in bfloat16 on this processor, beside float32; empty on an accelerator."""
    if config.precision != "float32" or on_accelerator():
        return []
    whole, half = convolution_times("bfloat16")
    if half >= whole:
        return [
            ("in bfloat16", f"slower on this processor: convolutions take {half / whole:.1f} times as long")
        ]
    other = dataclasses.replace(config, precision="mixed_bfloat16")
    there, note = seconds_per_step(make_trainer(other, splits), other, splits)
    advice = "add --precision=mixed_bfloat16" if there < seconds else "float32 is faster here"
    return [("in bfloat16", f"{there:.3g} ({note}), {seconds / there:.2f} times as fast: {advice}")]


def described_exposure(kinds: dict) -> str:
    """What `ImageSource.exposure` says, in words.

    Example:

    >>> described_exposure({"own": {"seen": 2000, "unique": 500, "times": 4.0}})
    '2,000 own seen, 500 unique, 4 times each'
    """
    return "; ".join(
        f"{each['seen']:,} {kind} seen, {each['unique']:,} unique, {each['times']:g} times each"
        for kind, each in kinds.items()
    )


def describe_attacks(stay: float, costs, device: Accelerator | None = None, counted: float = 0.0) -> str:
    """What `plan_evaluation` returns, as text: passes, time and memory of every attack, with bounds.

    For a `device` that is not here, the times are those on it, from the operations of a pass.
    """
    rows = [["attack", "passes", "at least", "at most", "time", "at least", "at most", "memory"]]
    ran = [(label, cost, memory) for label, not_run, cost, memory in costs if not_run is None]
    total = [("all attacks", sum(cost for _, cost, _ in ran), max(one[2] for one in ran))] if ran else []
    for label, (fewest, usual, most), memory in [*ran, *total]:
        bounds = (usual, fewest, most)
        passes = [float(one[:2].sum()) for one in bounds]
        times = [device.seconds(each * counted) for each in passes] if device else [one[2] for one in bounds]
        numbers = [f"{each:,.0f}" for each in passes]
        rows.append([label, *numbers, *map(format_duration, times), f"{memory:.1f} GiB"])
    absent = [f"{label} is not run: {not_run}" for label, not_run, *_ in costs if not_run is not None]
    where = f"on {device.name}, {device.basis(counted)}" if device else "on this machine"
    remarks = [
        f"At least: all images fall at the first step. At most: all stay. Here {stay:.0%} withstand PGD-10.",
        f"Time {where}.",
        "Without sanity checks. Memory: of this process, measured with and without gradients.",
    ]
    return "\n".join([*aligned(rows), "", *absent, *remarks])


def seconds_of_validation(config: TrainConfig, attacked: float, cost, seconds: float, images: int) -> float:
    """The attack, a clean pass and one on what it found: scaled by network passes."""
    return seconds * (attacked + 2) / sum(cost) * images / config.batch_size


def seconds_per_step(trainer, config: TrainConfig, splits) -> tuple[float, str]:
    """Best of three steps on real images, after one that compiles."""
    full = config.batch_size
    few = min(math.lcm(FEW_IMAGES, config.accumulate), full)
    seconds = _timed_step(trainer, config, splits, few)
    scaled = seconds * full / few
    if scaled > PATIENCE:
        return scaled, f"measured on {few} images and scaled to {full}"
    return _timed_step(trainer, config, splits, full), f"measured on {full} images"


def _timed_step(trainer, config: TrainConfig, splits, batch_size: int) -> float:
    times = []
    settings = config.stream_settings | {"batch_size": batch_size}
    for x, y in splits.train.stream(**settings).take(4):
        began = time.perf_counter()
        trainer.train_on_batch(x, y)
        times.append(time.perf_counter() - began)
    return min(times[1:])
