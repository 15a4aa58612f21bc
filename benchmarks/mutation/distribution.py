"""Slips in `athe_tf/distribution/`."""

from benchmarks.mutation.slip import Slip

HERE = "athe_tf/distribution"
TESTS = "tests/distribution/test_distribution.py"
PARTS = ("tests/distribution/test_parts.py",)

SLIPS = (
    Slip(
        "W1",
        f"{HERE}/cluster.py",
        "FIRST_PORT, PORTS = 20000, 10000",
        "FIRST_PORT, PORTS = 20000, 100",
        PARTS,
    ),
    Slip(
        "W2",
        f"{HERE}/cluster.py",
        'index + (len(groups.get("chief", [])) if kind == "worker" else 0)',
        "index",
        (f"{TESTS}::test_a_chief_is_the_first_worker",),
    ),
    Slip(
        "W3",
        f"{HERE}/cluster.py",
        "{number:0{len(low)}d}",
        "{number}",
        (f"{TESTS}::test_short_host_lists_are_written_out",),
    ),
    Slip(
        "W4",
        f"{HERE}/cluster.py",
        "return self.index == 0",
        "return self.index == len(self.workers) - 1",
        PARTS,
    ),
    Slip(
        "W5", f"{HERE}/cluster.py", "0 <= index < len(groups[kind])", "0 <= index <= len(groups[kind])", PARTS
    ),
    Slip(
        "W6",
        f"{HERE}/strategy.py",
        "real = rows < tf.shape(x)[0]",
        "real = rows <= tf.shape(x)[0]",
        (f"{TESTS}::test_a_short_batch_is_filled_up_with_images_of_no_weight",),
    ),
    Slip("W7", f"{HERE}/strategy.py", "-(-len(source) // batch_size)", "len(source) // batch_size", PARTS),
    Slip("W8", f"{HERE}/strategy.py", "number if self.is_chief else 0.0", "number", PARTS),
    Slip(
        "W9",
        f"{HERE}/strategy.py",
        "batch_size % self.replicas == 0",
        "batch_size >= self.replicas",
        (f"{TESTS}::test_a_batch_that_the_replicas_do_not_divide_is_refused",),
    ),
    Slip(
        "W10",
        f"{HERE}/settings.py",
        "several = cluster is not None and len(cluster.workers) > 1",
        "several = cluster is not None",
        PARTS,
    ),
    Slip(
        "W13",
        "athe_tf/utils/replicas.py",
        "return tf.range(number) + part * number",
        "return tf.range(number)",
        ("tests/training/test_recipes.py::test_parts_of_a_batch_give_the_update_of_the_batch[free_at]",),
    ),
    Slip(
        "W14",
        "athe_tf/training/free_at.py",
        "rows = replicas.rows(x)",
        "rows = replicas.positions(x)",
        (f"{TESTS}::test_the_noise_of_free_at_stays_on_its_replica_and_equals_that_of_one[two]",),
    ),
    Slip(
        "W15",
        "athe_tf/attacks/engine/loop.py",
        "        if whole:\n            return i + 1, rows, active, work, fixed, full\n",
        "",
        ("tests/training/test_xla.py::test_attacks_compile_for_batches_of_one_size_with_the_same_flags",),
    ),
    Slip(
        "W16",
        "athe_tf/evaluation/state_folder.py",
        "sorted({*opened.computed_on, *_devices(opened.owner.load())})",
        "opened.owner.load() and opened.computed_on or opened.computed_on",
        (
            "tests/evaluation/test_shards.py::test_devices_that_round_differently_are_named_when_shards_are_merged",
        ),
    ),
    Slip(
        "W11", f"{HERE}/settings.py", "worker_timeout: float = 300.0", "worker_timeout: float = 30.0", PARTS
    ),
    Slip(
        "W12",
        f"{HERE}/settings.py",
        'self.cpu_replicas > 1 or self.devices == ("cpu",)',
        'self.devices == ("cpu",)',
        PARTS,
    ),
)
