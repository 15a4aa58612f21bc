"""Whether a training step is a function of its state and its batch: the same step, many times.

    python -m benchmarks.repeatability                           # every framework, 200 repeats, under load
    python -m benchmarks.repeatability --rows=TRADES,ALP --repeats=60 --steps=1
    python -m benchmarks.repeatability --cost --repeats=20 --load=0   # what it costs that they do not differ

Every repeat starts from the same weights, optimizer state and images, and its result is compared bit for bit
with the first. Busy processes compete for the cores meanwhile: what depends on the order in which threads
finish shows more often under load.
"""

import argparse
import hashlib
import multiprocessing
from unittest import mock

import athe_tf  # noqa: F401  (before TensorFlow: turns oneDNN on)
from benchmarks.timing import interleaved, table
from benchmarks.train_step import ROWS, contains, step_of, trainer_for

import numpy as np  # isort: skip


def state_of(trainer) -> list:
    """The variables that a step reads and writes; metrics are left out."""
    return [*trainer.variables, *trainer.optimizer.variables]


def digest(variables) -> str:
    """A text that differs when any bit of the variables does."""
    return hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in variables)).hexdigest()


def differing(trainer, step, repeats: int) -> int:
    """How many repeats of the step end elsewhere than the first."""
    step()  # compiles, and makes what is made on first use
    variables = state_of(trainer)
    start = [np.asarray(variable).copy() for variable in variables]
    results = []
    for _ in range(repeats + 1):
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        step()
        results.append(digest(variables))
    return sum(result != results[0] for result in results[1:])


def measured(name: str, framework: str, head: str, arguments, x, y) -> str:
    """What the table says of a row."""
    if arguments.cost:
        ratio = cost(lambda: step_of(trainer_for(name, framework, head, arguments), x, y), arguments.repeats)
        return f"{ratio:.3f}"
    trainer = trainer_for(name, framework, head, arguments)
    return str(differing(trainer, step_of(trainer, x, y), arguments.repeats))


def cost(make_step, repeats: int) -> float:
    """The time of a repeatable step over that of the same step as TensorFlow optimizes it by itself."""
    steps = {"repeatable": make_step()}
    with mock.patch("athe_tf.utils.tensorflow_compat.repeatable", lambda function: function):
        steps["as it comes"] = make_step()
    best = interleaved(steps, repeats)
    return best["repeatable"] / best["as it comes"]


def keep_busy() -> None:
    """Computes until it is ended."""
    while True:
        np.linalg.norm(np.ones((256, 256)) @ np.ones((256, 256)))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="wrn-10-1")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2, help="of the attack")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rows", default=",".join(name for name, _, _ in ROWS))
    parser.add_argument("--without", default="again", help="rows to leave out")
    parser.add_argument("--cost", action="store_true", help="measure the time instead")
    parser.add_argument("--load", type=int, default=1, help="busy processes beside the measurement")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(arguments.batch_size, 32, 32, 3)).astype("float32")
    y = rng.integers(0, 10, arguments.batch_size).astype("int32")
    context = multiprocessing.get_context("spawn")
    load = [context.Process(target=keep_busy, daemon=True) for _ in range(arguments.load)]
    for process in load:
        process.start()
    rows = [("step", "time, repeatable over not" if arguments.cost else "repeats that differ", "repeats")]
    try:
        for name, framework, head in ROWS:
            if contains(name, arguments.rows) and not contains(name, arguments.without):
                found = measured(name, framework, head, arguments, x, y)
                rows.append((name, found, arguments.repeats))
                print(f"{name}: {found}, {arguments.repeats} repeats", flush=True)
    finally:
        for process in load:
            process.terminate()
    print(f"\n{arguments.model}, batch {arguments.batch_size}, {arguments.load} busy processes\n")
    print(table(rows))


if __name__ == "__main__":
    main()
