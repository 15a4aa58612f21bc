"""What corrupted images cost: CPU seconds for 10,000 images at one severity: docs/corruptions.md.

    python -m benchmarks.corruptions --data_dir=DIR

The mean over the five severities, from the first 1,000 test images of CIFAR-10. Processor time of all
threads, so that other programs on the machine matter little.
"""

import argparse
import time

from athe_tf import data
from athe_tf.data.corruptions.names import SEVERITIES, STANDARD
from benchmarks.timing import table

SHOWN = 10_000


def seconds(images, name: str) -> float:
    """Processor time of a corruption for `SHOWN` images, the mean over severities."""
    data.corrupt(images[:1], name, 1)  # what is computed once, such as the textures of frost
    began = time.process_time()
    for severity in SEVERITIES:
        data.corrupt(images, name, severity)
    return (time.process_time() - began) / len(SEVERITIES) * SHOWN / len(images)


def main() -> None:
    """Prints a line per corruption."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir")
    parser.add_argument("--images", type=int, default=1000)
    arguments = parser.parse_args()
    images, _ = data.load("cifar10", data_dir=arguments.data_dir).test.arrays(arguments.images)
    found = {name: seconds(images, name) for name in STANDARD}
    rows = [(name.replace("_", " "), f"{value:.1f}") for name, value in found.items()]
    print(table([("corruption", f"CPU seconds for {SHOWN:,} images"), *rows]))
    minutes = sum(found.values()) * len(SEVERITIES) / 60
    print(f"\nAll {len(STANDARD) * len(SEVERITIES)} cells: {minutes:.1f} minutes")


if __name__ == "__main__":
    main()
