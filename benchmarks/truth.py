"""Is the number true, or does it say why not? Small models and situations that have misled an evaluation.

    python -m benchmarks.truth
    python -m benchmarks.truth --only="wrapper of a function,healthy"

Every situation is measured in up to four ways: `evaluate`, `evaluate(checks=False)`, `Attack.run` and `fit`.
The reference is independent of athe_tf: PGD on the margin in plain TensorFlow, written here, on the same
function without its trap, judged by what the object computes. The outcome of a way is

- right: clean accuracy equal, robust accuracy within four images of the reference;
- refused: an `InputError` that names the cause;
- warned: another number, and a warning that names the cause;
- SILENT: another number without a word, or the wrong words; FALSE ALARM: a warning for a healthy model.

Exits with 1 if there is one of the last two. The situations are in `benchmarks/truth_cases.py` and
`truth_more_cases.py`.
"""

import argparse
import collections
import dataclasses
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import athe_tf  # before keras

import keras  # isort: skip
import numpy as np
import tensorflow as tf

from athe_tf.utils.errors import InputError

EPSILON, IMAGES, TOLERANCE = 0.1, 48, 4
STEPS, RESTARTS = 40, 3
ATTACKS = ("pgd-20", "cw-linf-40x3")
RIGHT, REFUSED, WARNED, SILENT, ALARM = "right", "refused", "warned", "SILENT", "FALSE ALARM"


@dataclasses.dataclass
class Subject:
    """What a situation hands to athe_tf, and what is true of it.

    Attributes:
        model: What is evaluated.
        true: From images to the logits that the model really gives now. Defaults to `model`.
        twin: The same function without its trap, whose gradients the reference follows. Defaults to `true`.
        data: What is given as data. Defaults to the images and labels of the world.
        truth: The images and labels behind `data`.
        options: Further arguments of `evaluate`.
        run: Whether `Attack.run` takes this model and data too.
        reference: The true robust accuracy, where it is known without an attack.
    """

    model: Any
    true: Callable | None = None
    twin: Callable | None = None
    data: Any = None
    truth: tuple | None = None
    options: dict = dataclasses.field(default_factory=dict)
    run: bool = True
    reference: float | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """A situation.

    Attributes:
        name: A few words.
        make: From a `World` to a `Subject`; or, if `training`, to the outcome of a training itself.
        says: A pattern that a warning or a refusal must match. Empty: the number must be right.
        healthy: Nothing is wrong, so nothing may be said.
        training: Whether `make` trains and returns an outcome.
        random: The predictions of clean images vary from pass to pass.
        needs_checks: Only the sanity checks can notice it: `checks=False` and `Attack.run` are left out.
    """

    name: str
    make: Callable
    says: str = ""
    healthy: bool = False
    training: bool = False
    random: bool = False
    needs_checks: bool = False


class World:
    """Digits, and a small network that was trained on them without any defense."""

    def __init__(self):
        splits = athe_tf.data.load("digits")
        self.train = splits.train.arrays(None)
        x, y = splits.test.arrays(IMAGES)
        self.x, self.y = x.astype("float32"), y.astype("int32")
        self.net = self.network()

    def network(self, head=None, seed: int = 0, epochs: int = 6) -> keras.Model:
        """A trained network; `head` maps features to outputs and defaults to a `Dense` layer."""
        keras.utils.set_random_seed(seed)
        inputs = keras.Input((8, 8, 1))
        h = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
        h = keras.layers.Conv2D(16, 3, activation="relu")(h)
        h = keras.layers.Flatten()(h)
        head = keras.layers.Dense(10, name="head") if head is None else head
        net = keras.Model(inputs, head(h))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        net.compile(keras.optimizers.Adam(3e-3), loss=loss)
        net.fit(*self.train, batch_size=64, epochs=epochs, verbose=0)
        return net


def margin(logits, y):
    """The largest other logit minus that of the label."""
    own = tf.gather(logits, y, axis=1, batch_dims=1)
    others = tf.where(tf.one_hot(y, logits.shape[1]) > 0, tf.constant(-np.inf, logits.dtype), logits)
    return tf.reduce_max(others, axis=1) - own


def is_wrong(true: Callable, x, y) -> np.ndarray:
    """Which predictions are wrong, or contain NaN."""
    logits = np.asarray(true(tf.constant(x)), np.float64)
    return (logits.argmax(1) != y) | ~np.isfinite(logits).all(1)


def reference(true: Callable, twin: Callable, x, y) -> tuple[float, float]:
    """Clean and robust accuracy by PGD on the margin of `twin`; every iterate is judged by `true`."""
    draw = np.random.default_rng(0)
    broken = is_wrong(true, x, y)
    clean = 1 - broken.mean()
    labels = tf.constant(y, tf.int32)
    for _ in range(RESTARTS):
        point = np.clip(x + draw.uniform(-EPSILON, EPSILON, x.shape), 0, 1).astype("float32")
        for step in range(STEPS):
            variable = tf.constant(point)
            with tf.GradientTape() as tape:
                tape.watch(variable)
                value = margin(tf.cast(twin(variable), tf.float32), labels)
            slope = np.nan_to_num(tape.gradient(value, variable).numpy())
            length = EPSILON * (0.25 if step < STEPS // 2 else 0.05)
            point = np.clip(np.clip(point + length * np.sign(slope), x - EPSILON, x + EPSILON), 0, 1)
            point = point.astype("float32")
            broken |= is_wrong(true, point, y)
    return clean, float(1 - broken.mean())


def judged(case: Case, found: tuple[float, float], true: tuple[float, float], told: str) -> str:
    """The outcome of a measurement."""
    if case.healthy and told:
        return f"{ALARM}: {told[:70]}"
    if found[1] is None or np.isnan(found[1]):  # no attack could be run: robustness is said to be unknown
        return REFUSED
    images = np.abs(np.subtract(found, true)) * IMAGES
    if images[0] < (TOLERANCE if case.random else 0) + 0.5 and images[1] <= TOLERANCE + 0.5:
        return RIGHT
    if case.says and re.search(case.says, told):
        return WARNED
    return f"{SILENT}: {found[0]:.2f} {found[1]:.2f}, true {true[0]:.2f} {true[1]:.2f}. {told[:60]}"


def ways(case: Case, subject: Subject, world: World) -> dict[str, Callable[[], tuple]]:
    """What is measured: functions that return `((clean, robust), warnings)`."""
    data = (world.x, world.y) if subject.data is None else subject.data
    pair = isinstance(data, tuple)

    def evaluated(checks: bool):
        options = {"attacks": list(ATTACKS), "epsilon": EPSILON, "checks": checks, **subject.options}
        result = athe_tf.evaluate(subject.model, data, **options)
        failed = [check["name"] for check in result.checks if check["status"] == "failed"]
        told = " ".join([*map(str, result.warnings), *failed])
        robust = result.worst_case_accuracy
        return (result.clean_accuracy, np.nan if robust is None else robust), told

    def run():
        attack = athe_tf.attacks.get("cw-linf-20", epsilon=EPSILON)
        result = attack.run(subject.model, *data)
        clean = float(np.mean(result.norm > 0))
        return (clean, float(1 - result.success.mean())), " ".join(map(str, result.notes))

    found: dict[str, Callable] = {"evaluate": lambda: evaluated(True)}
    if case.needs_checks:
        return found
    found["without checks"] = lambda: evaluated(False)
    if subject.run and pair and not subject.options:
        found["Attack.run"] = run
    return found


def outcomes(case: Case, world: World) -> dict[str, str]:
    """The outcome of each way to measure a situation."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            subject = case.make(world)
        except InputError as error:
            return {"made": _refusal(case, error)}
        if case.training:
            return {"fit": subject}
        true = subject.true or subject.model
        x, y = (world.x, world.y) if subject.truth is None else subject.truth
        expected = None
        found = {}
        for way, measure in ways(case, subject, world).items():
            heard.clear()
            try:
                numbers, told = measure()
            except InputError as error:
                found[way] = _refusal(case, error)
                continue
            if expected is None:
                expected = reference(true, subject.twin or true, x, y)
                if subject.reference is not None:
                    expected = expected[0], subject.reference
            ours = [str(one.message) for one in heard if "athe_tf" in str(one.filename)]
            found[way] = judged(case, numbers, expected, " ".join([told, *ours]).strip())
    return found


def _refusal(case: Case, error: InputError) -> str:
    fits = bool(case.says) and re.search(case.says, str(error)) is not None
    return REFUSED if fits else f"{SILENT}: refused with {str(error)[:90]!r}"


def main():
    from benchmarks import truth_more_cases  # noqa: F401
    from benchmarks.truth_cases import CASES  # they import this module

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="Parts of names, with commas between them.")
    only = [part for part in parser.parse_args().only.split(",") if part]
    world, bad = World(), 0
    counts: collections.Counter = collections.Counter()
    for case in CASES:
        if only and not any(part in case.name for part in only):
            continue
        found = outcomes(case, world)
        wrong = [text for text in found.values() if text.startswith((SILENT, ALARM))]
        bad += len(wrong)
        counts.update(text.partition(":")[0] for text in found.values())
        print(f"{case.name:<46} " + "; ".join(f"{way}: {text}" for way, text in found.items()), flush=True)
    print(", ".join(f"{text}: {count}" for text, count in sorted(counts.items())))
    print(f"{bad} silent differences or false alarms.")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
