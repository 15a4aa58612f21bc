"""How far two workers and one process are apart after 20 steps, in float32 and in float64.

    python -m benchmarks.worker_drift                                                # about 15 minutes
    python -m benchmarks.worker_drift --rows=digits_trades_he --options=--epochs=20   # 200 steps

A row is a config, by default of digits with a global batch of 118 images, 10 steps an epoch. bin/train trains
it by one process and by two workers on loopback. Printed is the largest difference between the weights
that they end with, moving statistics included.
"""

import argparse
import pathlib
import sys
import tempfile

import athe_tf
from benchmarks.timing import table
from benchmarks.workers import run_workers

import numpy as np  # isort: skip

ROOT = pathlib.Path(__file__).parents[1]
FRAMEWORKS = ("standard", "pgd_at_he", "alp_he", "trades_he", "free_at_he", "fast_at_he", "mart_he", "llr")
ROWS = ",".join(f"digits_{framework}" for framework in FRAMEWORKS)
PRECISIONS = ("float32", "float64")


def final_weights(row: str, workers: int, folder: pathlib.Path, options: list[str]) -> list:
    """What so many workers end with."""
    command = [
        sys.executable, "-m", "athe_tf.programs.train", f"--flagfile={ROOT / 'configs' / f'{row}.flags'}",
        "--batch_size=118", "--epochs=2", "--validation_attack=pgd-1", f"--workdir={folder}", *options,
    ]  # fmt: skip
    run_workers([command] * workers)
    return [np.asarray(weight) for weight in athe_tf.load_model(folder / "final.keras").weights]


def drift(row: str, options: list[str]) -> float:
    """The largest difference between a weight of one process and of two workers."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (final_weights(row, n, pathlib.Path(folder, f"{n}"), options) for n in (1, 2))
    return max(float(np.abs(a - b).max()) for a, b in zip(one, two, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", default=ROWS, help="configs/ROW.flags, separated by commas")
    parser.add_argument("--options", default="", help="further flags of bin/train, separated by blanks")
    arguments = parser.parse_args()
    lines: list[tuple] = [("config", *PRECISIONS)]
    for row in arguments.rows.split(","):
        options = arguments.options.split()
        found = [f"{drift(row, [f'--precision={p}', *options]):.1e}" for p in PRECISIONS]
        lines.append((row, *found))
        print(*lines[-1], flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
