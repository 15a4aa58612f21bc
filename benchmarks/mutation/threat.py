"""Slips in `athe_tf/threat.py`."""

from benchmarks.mutation.slip import Slip

FILE = "athe_tf/threat.py"
TESTS = ("tests/test_threat.py",)

SLIPS = (
    Slip("T1", FILE, "low = tf.maximum(x - self.epsilon, 0.0)", "low = x - self.epsilon", TESTS),
    Slip("T2", FILE, "TOLERANCE * tf.minimum(epsilon, 1.0)", "TOLERANCE", TESTS),
    Slip("T3", FILE, "TOLERANCE * tf.minimum(epsilon, 1.0)", "TOLERANCE * epsilon", TESTS),
    Slip("T4", FILE, "radius = share ** (1.0 / math.prod(shape))", "radius = share", TESTS),
    Slip("T5", FILE, "(size + 1,), 0.0, 1.0, dtype=x.dtype", "(size,), 0.0, 1.0, dtype=x.dtype", TESTS),
    Slip(
        "T6",
        FILE,
        "return steepest / (per_example(tf.reduce_sum(flat(tf.abs(steepest)), axis=1)) + TINY)",
        "return steepest",
        TESTS,
    ),
    Slip("T7", FILE, "GAUSSIAN_START = 0.001", "GAUSSIAN_START = 0.01", TESTS),
    Slip("T8", FILE, "(1, 1, 1), 0.0, 1.0, stream=1", "(1, 1, 1), 0.0, 1.0", TESTS),
    Slip(
        "T9",
        FILE,
        "LEVELS * self.epsilon * (1 + TOLERANCE)",
        "LEVELS * self.epsilon * (1 - TOLERANCE)",
        TESTS,
    ),
    Slip("T10", FILE, "tf.floor(LEVELS * x + 0.5)", "tf.round(LEVELS * x)", TESTS),
    Slip("T11", FILE, "tf.sign(delta) * tf.floor(tf.abs(delta))", "tf.floor(delta)", TESTS),
    Slip(
        "T12", FILE, "return rng.uniform(seed, ids, shape)\n", "return rng.normal(seed, ids, shape)\n", TESTS
    ),
    Slip("T13", FILE, "    sparse = True", "    sparse = False", TESTS),
    Slip(
        "T14", FILE, "tf.maximum(tf.maximum(moved - 1.0, -moved), 0.0)", "tf.maximum(moved - 1.0, 0.0)", TESTS
    ),
    Slip(
        "T15",
        FILE,
        "L1(self.epsilon * (1 - 1e-5)).project(x, x + delta)",
        "x + super()._into_ball(delta, self.epsilon)",
        TESTS,
    ),
    Slip(
        "T16",
        FILE,
        "return tf.clip_by_value(x + self.epsilon * tf.sign(delta), 0.0, 1.0)",
        "return x + self.epsilon * tf.sign(delta)",
        TESTS,
    ),
    Slip("T17", FILE, "MOST_NEWTON_STEPS = 60", "MOST_NEWTON_STEPS = 3", TESTS),
    Slip("T18", FILE, "self.epsilon if epsilon is None else epsilon", "self.epsilon", TESTS),
    Slip(
        "T19",
        FILE,
        "return self._norm(delta, axes, keepdims=True)",
        "return self._norm(delta, axes, keepdims=False)",
        TESTS,
    ),
    Slip(
        "T20",
        FILE,
        "falling = tf.logical_and(excess <= threshold, threshold < magnitude)",
        "falling = threshold < magnitude",
        TESTS,
    ),
    Slip(
        "T21",
        FILE,
        "rng.rademacher(seed, ids, shape, stream=1, dtype=x.dtype)",
        "rng.rademacher(seed, ids, shape, dtype=x.dtype)",
        TESTS,
    ),
    Slip(
        "T22",
        FILE,
        "return tf.clip_by_value(x + delta, 0.0, 1.0)\n\n    def ascent",
        "return x + delta\n\n    def ascent",
        TESTS,
    ),
)
