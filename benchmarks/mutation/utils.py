"""Slips in `athe_tf/utils/`."""

from benchmarks.mutation.slip import Slip

HERE = "athe_tf/utils"
EDGES = ("tests/utils/test_boundaries.py",)
RNG = ("tests/utils/test_rng.py",)
FILES = ("tests/utils/test_files.py", "tests/jobs/test_ownership.py")
LOCKS = ("tests/jobs/test_locks.py",)
OWNERSHIP = ("tests/jobs/test_ownership.py",)

SLIPS = (
    Slip(
        "U1",
        f"{HERE}/files.py",
        "            os.replace(temporary, path)\n",
        "            shutil.copy(temporary, path)\n",
        FILES,
    ),
    Slip("U2", f"{HERE}/files.py", "            sync(temporary)\n", "", FILES),
    Slip(
        "U3", f"{HERE}/files.py", "path.is_file() and path.read_bytes() == content", "path.is_file()", FILES
    ),
    Slip(
        "U4",
        f"{HERE}/files.py",
        "if old.exists() and not path.exists():",
        "if old.exists() and path.exists():",
        FILES,
    ),
    Slip(
        "U5",
        f"{HERE}/files.py",
        "if path.name.startswith(OLD_FOLDER):",
        "if path.name.startswith(NEW_FOLDER):",
        FILES,
    ),
    Slip(
        "U6", "athe_tf/jobs/locks.py", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB", LOCKS
    ),
    Slip("U7", "athe_tf/jobs/locks.py", "if _same_file(descriptor, path):", "if True:", LOCKS),
    Slip(
        "U8",
        "athe_tf/jobs/locks.py",
        "if error.errno not in UNSUPPORTED:",
        "if error.errno in UNSUPPORTED:",
        LOCKS,
    ),
    Slip(
        "U9",
        "athe_tf/jobs/ownership.py",
        "signature is not None and signature[1] ==",
        "signature is not None or signature[1] ==",
        OWNERSHIP,
    ),
    Slip(
        "U10",
        "athe_tf/jobs/ownership.py",
        "if holds_arrays(folder / name, STATE_ARRAYS)]",
        "]",
        OWNERSHIP,
    ),
    Slip("U11", f"{HERE}/digests.py", "{array.dtype} {array.shape}", "{array.dtype}", EDGES),
    Slip(
        "U12",
        f"{HERE}/digests.py",
        "np.ascontiguousarray(array)",
        "np.ascontiguousarray(np.sort(array, axis=None))",
        EDGES,
    ),
    Slip("U13", f"{HERE}/rng.py", "fold(seed, stream) + _mix", "fold(seed, 0) + _mix", RNG),
    Slip("U14", f"{HERE}/rng.py", "0x846CA68B", "0x846CA68D", RNG),
    Slip("U15", f"{HERE}/rng.py", "fold(seed, 0x5EED)", "seed", RNG),
    Slip("U19", f"{HERE}/errors.py", "int(value) >= least", "int(value) > least", EDGES),
    Slip("U20", f"{HERE}/errors.py", " and not isinstance(value, bool)", "", EDGES),
    Slip("U21", f"{HERE}/number_format.py", "abs(pixels) < 255", "abs(pixels) <= 400", EDGES),
    Slip("U22", f"{HERE}/number_format.py", "if whole < 3600:", "if seconds < 3600:", EDGES),
    Slip("U23", "athe_tf/utils/images_and_labels.py", "1 < high <= 255", "1 < high < 255", EDGES),
    Slip(
        "U24", f"{HERE}/choices.py", 'norm != "linf" or epsilon <= 1', 'norm != "linf" or epsilon < 1', EDGES
    ),
    Slip(
        "U25",
        f"{HERE}/label_checks.py",
        "(labels >= 0) & (labels < classes)",
        "(labels >= 0) & (labels <= classes)",
        ("tests/utils/test_label_checks.py",),
    ),
    Slip(
        "U26",
        f"{HERE}/registry.py",
        "self.extensible and is_import_path(name)",
        "is_import_path(name)",
        ("tests/utils/test_registry.py",),
    ),
    Slip(
        "U27",
        "athe_tf/data/npz.py",
        "size == stored,",
        "size >= stored,",
        ("tests/utils/test_archives.py",),
    ),
    Slip(
        "U28",
        "athe_tf/utils/streams.py",
        "\\u202a-\\u202e",
        "\\u202a-\\u202d",
        ("tests/utils/test_streams.py",),
    ),
    Slip(
        "U29",
        "athe_tf/jobs/locks.py",
        "                (folder / name).unlink()\n            os.close(descriptor)\n",
        "                os.close(descriptor)\n                (folder / name).unlink()\n",
        LOCKS,
    ),
    Slip("U30", f"{HERE}/files.py", 'for inside in (*new.rglob("*"), new):', "for inside in (new,):", FILES),
    Slip("U16", f"{HERE}/options.py", '("lt", operator.lt)', '("lt", operator.le)', EDGES),
    Slip("U17", f"{HERE}/options.py", '("gt", operator.gt)', '("gt", operator.ge)', EDGES),
    Slip("U18", f"{HERE}/options.py", '("ge", operator.ge)', '("ge", operator.gt)', EDGES),
)
