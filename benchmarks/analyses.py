"""How long each analysis takes on a WRN-10-1 with 128 images, compiling included: docs/analysis_examples.md.

    python -m benchmarks.analyses --data_dir=DIR

Every analysis with its default settings; `landscape` in all of its forms.
"""

import argparse
import time

import athe_tf  # before keras
from benchmarks.timing import table

from athe_tf.saving.keras_file import load_model  # isort: skip

MODEL = "results/cifar10_mini/fast_at_he_seed0/best.keras"
#: Further forms of an analysis, by the name of the row.
FORMS = {
    "landscape, eigenvectors": {"directions": "eigenvectors"},
    "landscape, pixels": {"space": "pixels"},
}


def main() -> None:
    """Prints a line per analysis."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir")
    arguments = parser.parse_args()
    net = load_model(MODEL)
    images = athe_tf.data.load("cifar10", data_dir=arguments.data_dir).test
    options = athe_tf.analysis.AnalysisOptions(max_examples=128)
    rows = []
    for row in (*athe_tf.analysis.ANALYSES, *FORMS):
        function = getattr(athe_tf.analysis, row.partition(",")[0])
        cpu, wall = time.process_time(), time.monotonic()
        function(net, images, None, options, **FORMS.get(row, {}))
        rows.append((row, f"{time.process_time() - cpu:.0f}", f"{time.monotonic() - wall:.0f}"))
    print(table([("analysis", "CPU seconds", "wall-clock seconds"), *rows]))


if __name__ == "__main__":
    main()
