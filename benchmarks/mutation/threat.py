"""Slips in `athe_tf/threat.py`."""

from benchmarks.mutation.slip import Slip

TESTS = ("tests/test_threat.py",)
FILE = "athe_tf/threat.py"

SLIPS = (
    Slip("T7", FILE, "GAUSSIAN_START = 0.001", "GAUSSIAN_START = 0.01", TESTS),
    Slip("T8", FILE, "return tf.sign(gradient)\n", "return gradient\n", TESTS),
)
