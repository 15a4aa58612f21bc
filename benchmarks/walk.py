"""How far one has to walk through the code: calls, files and changes of file of two everyday paths.

    python -m benchmarks.walk

Counts the calls of athe_tf's own functions, the files they are in, and how often a call is in another file
than the one before, for the second `PGD.run` on one batch, and for `bin/evaluate --attacks=autoattack` from
the command line to the report. Nothing here depends on the speed of the machine.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import threading

import keras
import numpy as np

import athe_tf
from athe_tf.programs import evaluate

PACKAGE = str(pathlib.Path(athe_tf.__file__).parent)


class Walk:
    """Counts calls while it is entered; class bodies, comprehensions and import machinery do not count."""

    def __init__(self):
        self.calls, self.changes, self.files, self.functions = 0, 0, set(), set()
        self._last = threading.local()

    def __enter__(self):
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *exception):
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        self.calls += 1
        self.files.add(code.co_filename)
        self.functions.add((code.co_filename, code.co_qualname))
        self.changes += getattr(self._last, "file", None) != code.co_filename
        self._last.file = code.co_filename

    def __str__(self):
        return (
            f"{self.calls:,} calls of {len(self.functions)} functions in {len(self.files)} files, "
            f"{self.changes:,} changes of file"
        )


def digits_model() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """A classifier of digits after five epochs, and 24 test images with their labels."""
    keras.utils.set_random_seed(0)
    splits = athe_tf.data.load("digits")
    net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(*arrays(splits.train), epochs=5, batch_size=64, verbose=0)
    x, y = arrays(splits.test)
    return net, x[:24], y[:24]


def arrays(images) -> tuple[np.ndarray, np.ndarray]:
    """All images and labels of a set."""
    batches = [(np.asarray(x), np.asarray(y)) for x, y in images.batches(256)]
    x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return x, y


def main() -> None:
    net, x, y = digits_model()
    attack = athe_tf.attacks.PGD(0.1, steps=5)
    attack.run(net, x[:8], y[:8])
    with Walk() as walk:
        attack.run(net, x[:8], y[:8])
    print(f"second PGD.run on one batch: {walk}")
    with tempfile.TemporaryDirectory() as scratch:
        net.save(os.path.join(scratch, "net.keras"))
        flags = ["--attacks=autoattack", "--dataset=digits", "--max_examples=24", "--epsilon=0.1"]
        sys.argv = ["bin/evaluate", f"--model={scratch}/net.keras", *flags, f"--output={scratch}/out"]
        with Walk() as walk, contextlib.redirect_stdout(None), contextlib.suppress(SystemExit):
            evaluate.main()
        assert os.path.exists(os.path.join(scratch, "out", "report.html"))
    print(f"bin/evaluate --attacks=autoattack to the report: {walk}")


if __name__ == "__main__":
    main()
