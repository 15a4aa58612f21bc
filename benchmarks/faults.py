"""Every call with which the programs change files fails, or is the last one: nothing is lost or corrupted.

For training, evaluation with AutoAttack, export and report: the program is run undisturbed, which counts the
points; then once per point and fault. After each, the files that are there must be whole, and the same
command, run again, must end with the undisturbed result and leave no temporary file.

    python -m benchmarks.faults                          # all points of all programs: hours
    python -m benchmarks.faults --program=export --faults=SIGKILL,ENOSPC
    python -m benchmarks.faults --faults=ENOSPC,EACCES,EIO --rotate    # one error per point, in turn
    python -m benchmarks.faults --every=20               # a sample
    python -m benchmarks.faults --program=train --first=150    # the last points only
"""

import argparse
import dataclasses
import hashlib
import json
import pathlib
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from athe_tf.report.writing import WRITTEN
from benchmarks.fault_points import FAULTS, FaultPoints
from tests.warm_processes import WarmProcess

FOLDER = "work"
POINTS, ERRORS = "points.txt", "errors.txt"
# Parts of a result that differ from run to run.
_TIMES = ("seconds", "command")


@dataclasses.dataclass(frozen=True)
class Case:
    """A program to disturb.

    Attributes:
        name: The program, such as `train`.
        flags: Its command line; the program runs in a folder that has what `prepare` made, and writes to
            the folder `work` there.
        prepare: Makes what the program reads.
        whole: Whether the folder appears all at once.
    """

    name: str
    flags: tuple[str, ...]
    prepare: Callable[[pathlib.Path], None]
    whole: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a disturbed run came to: `problem` is `None` if nothing was lost."""

    point: int
    fault: str
    what: str
    problem: str | None


def write_images(folder: pathlib.Path) -> None:
    """A data set of 96 images of 8x8 pixels in 3 classes."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(3), 32)
    bright = rng.integers(0, 90, (96, 8, 8, 1)) + 80 * labels[:, None, None, None]
    parts = {"x_train": bright[:64], "x_test": bright[64:]}
    arrays = {name: images.astype("uint8") for name, images in parts.items()}
    np.savez(folder / "images.npz", **arrays, y_train=labels[:64], y_test=labels[64:])


def write_model(folder: pathlib.Path) -> None:
    """The same, and a model that was trained on it."""
    write_images(folder)
    run(folder, "train", ("--workdir=trained", *_TRAINING, "--epochs=1"))


def write_evaluation(folder: pathlib.Path) -> None:
    """The same, and an evaluation without its pages, in the folder that the report is written to."""
    write_model(folder)
    run(folder, "evaluate", (f"--output={FOLDER}", *_EVALUATION, "--attacks=fgsm"))
    for name in WRITTEN:
        (folder / FOLDER / name).unlink()


_TRAINING = (
    "--dataset=npz:images.npz", "--model=small_cnn", "--framework=fast_at", "--head=he", "--batch_size=16",
    "--validation_size=16", "--backup_minutes=0", "--validation_attack=fgsm",
)  # fmt: skip
_EVALUATION = (
    "--model=trained", "--dataset=npz:images.npz", "--max_examples=6", "--batch_size=3", "--nochecks",
    "--epsilon=0.02",
)  # fmt: skip

CASES = {
    case.name: case
    for case in (
        Case(
            "train",
            (f"--workdir={FOLDER}", *_TRAINING, "--epochs=2", "--lr_resets=1", "--ensemble"),
            write_images,
        ),
        Case("evaluate", (f"--output={FOLDER}", *_EVALUATION, "--attacks=autoattack"), write_model),
        Case("export", ("--model=trained", f"--output={FOLDER}"), write_model, whole=True),
        Case("report", (FOLDER,), write_evaluation),
    )
}


def run(folder: pathlib.Path, name: str, flags: Sequence[str], at: int = 0, fault: str = "ENOSPC"):
    """Runs a program in a process of its own: `(exit code, error output, the points it passed)`."""
    process = start(folder, name, flags, at, fault)
    try:
        code = process.wait(timeout=600)
    finally:
        process.kill()
    passed = (folder / POINTS).read_text().splitlines() if (folder / POINTS).exists() else []
    return code, (folder / ERRORS).read_text(errors="replace"), passed


def start(folder: pathlib.Path, name: str, flags: Sequence[str], at: int = 0, fault: str = "ENOSPC"):
    """Starts a program in a process of its own."""
    errors = folder / ERRORS
    for path in (folder / POINTS, errors):
        path.unlink(missing_ok=True)
    arguments = [str(folder), str(at), fault, str(folder / POINTS), name, *flags]
    return WarmProcess("benchmarks.faults", ["--child", *arguments], errors, errors, folder=folder)


def child(folder: str, at: str, fault: str, log: str, name: str, *flags: str) -> None:
    """The life of such a process."""
    import importlib

    program = importlib.import_module(f"athe_tf.programs.{name}")
    sys.argv = [f"bin/{name}", *flags]
    FaultPoints(folder, int(at), fault, log).install()
    program.main()


def result_of(folder: pathlib.Path) -> dict[str, str]:
    """A digest of every file of a finished folder, without what differs from run to run."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".json", ".npz", ".keras", ".csv", ".txt", ".md", ".index")
    }


def _digest(path: pathlib.Path) -> str:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            parts = [archive.read(name) for name in sorted(archive.namelist()) if name != "metadata.json"]
        # Keras writes addresses of memory into its configs.
        parts = [re.sub(rb'"shared_object_id": \d+', b"", part) for part in parts]
    elif path.suffix == ".json":
        parts = [json.dumps(_without_times(json.loads(path.read_text())), sort_keys=True).encode()]
    elif path.suffix == ".index":
        parts = _variables(path.with_suffix(""))
    elif path.suffix == ".csv":
        parts = [line.rpartition(",")[0].encode() for line in path.read_text().splitlines()]
    else:
        parts = [path.read_bytes()]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _variables(checkpoint: pathlib.Path) -> list[bytes]:
    """The variables of a SavedModel, whose files differ from one export to the next."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(checkpoint))
    tensors = [reader.get_tensor(name) for name in reader.get_variable_to_shape_map()]
    # A variable has several names, and which of them is written is not fixed. Strings describe the objects.
    return sorted(tensor.tobytes() for tensor in tensors if isinstance(tensor, np.ndarray))


def _without_times(value):
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in _TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def broken_files(folder: pathlib.Path) -> list[str]:
    """The files, temporary ones left out, that cannot be read to their end."""
    return [str(path.relative_to(folder)) for path in _finished_files(folder) if not _whole(path)]


def _finished_files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".athe_tf-") for part in parts):
            yield path


def _whole(path: pathlib.Path) -> bool:
    try:
        if path.suffix in (".npz", ".keras"):
            return zipfile.ZipFile(path).testzip() is None
        if path.suffix == ".json":
            json.loads(path.read_text())
        return path.suffix not in (".html", ".md", ".csv", ".txt") or path.stat().st_size > 0
    except (zipfile.BadZipFile, ValueError, OSError, EOFError):
        return False


def disturb(case: Case, before: pathlib.Path, expected: dict, point: int, fault: str) -> Outcome:
    """Runs a program with one fault, then again without: what was lost, if anything."""
    with tempfile.TemporaryDirectory(dir=before.parent) as scratch:
        folder = pathlib.Path(scratch) / "run"
        shutil.copytree(before, folder)
        code, errors, passed = run(folder, case.name, case.flags, point, fault)
        what = passed[point - 1] if len(passed) >= point else "not reached"
        return Outcome(point, fault, what, _problem(case, folder, expected, code, errors, fault))


def _problem(case: Case, folder: pathlib.Path, expected: dict, code: int, errors: str, fault: str):
    allowed = (-9,) if fault == "SIGKILL" else (0, 1, 2)
    if code not in allowed or "Traceback" in errors:
        return f"exit code {code}: {errors[-1500:]}"
    broken = broken_files(folder / FOLDER)
    if broken:
        return f"broken files: {', '.join(broken)}"
    if case.whole and (folder / FOLDER).exists():
        return None if result_of(folder / FOLDER) == expected else "a part of the folder is there"
    code, errors, _ = run(folder, case.name, case.flags)
    if code != 0:
        return f"the second run has exit code {code}: {errors[-1500:]}"
    return difference(folder / FOLDER, expected)


def difference(folder: pathlib.Path, expected: dict) -> str | None:
    """How a finished folder differs from what was expected, or `None`.

    Temporary files are looked for beside the folder as well: nothing else may be at work there.
    """
    left = [path.name for path in folder.parent.rglob(".athe_tf*")]
    if left:
        return f"temporary files are left: {', '.join(left)}"
    found = result_of(folder)
    names = found.keys() | expected.keys()
    different = sorted(name for name in names if found.get(name) != expected.get(name))
    return f"another result: {', '.join(different)}" if different else None


def undisturbed(case: Case, folder: pathlib.Path) -> tuple[pathlib.Path, dict, list[str]]:
    """What a program starts from, its result, and its points."""
    before, done = folder / f"{case.name}-before", folder / f"{case.name}-done"
    before.mkdir()
    case.prepare(before)
    shutil.copytree(before, done)
    code, errors, points = run(done, case.name, case.flags)
    if code != 0:
        raise SystemExit(f"The undisturbed {case.name} failed with exit code {code}:\n{errors}")
    return before, result_of(done / FOLDER), points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", choices=[*CASES], action="append", help="Defaults to all.")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--rotate", action="store_true", help="One fault per point, in turn.")
    parser.add_argument("--every", type=int, default=1, help="Only every so many points.")
    parser.add_argument("--first", type=int, default=1, help="The point to begin with.")
    options = parser.parse_args()
    faults = options.faults.split(",")
    lost = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.program or CASES:
            before, expected, points = undisturbed(CASES[name], pathlib.Path(scratch))
            print(f"{name}: {len(points)} points, {len(expected)} files in the result", flush=True)
            tried = 0
            for point in range(options.first, len(points) + 1, options.every):
                for fault in [faults[point % len(faults)]] if options.rotate else faults:
                    outcome = disturb(CASES[name], before, expected, point, fault)
                    tried += 1
                    if outcome.problem is not None:
                        lost += 1
                        print(f"  {fault} at {outcome.what}: {outcome.problem}", flush=True)
            print(f"{name}: {tried} faults tried", flush=True)
    print(f"{lost} faults lost or corrupted something")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
