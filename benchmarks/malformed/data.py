"""Command lines with malformed data sets and models, each of which must be refused.

    for name, arguments in cases(folder):
        subprocess.run([sys.executable, *arguments])    # exit code 2, a message, nothing written

`python -m benchmarks.malformed.data` prints the names.
"""

import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks.malformed import archives, folders, models, tfds_sets

TRAIN = ("bin/train", "--framework=standard", "--model=small_cnn", "--epochs=1", "--batch_size=8")
EVALUATE = ("bin/evaluate", "--attacks=fgsm", "--epsilon=0.1", "--max_examples=8", "--nochecks")


def cases(folder: str | pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """About a hundred command lines: `(name, program and its arguments)`.

    The files of a case are written when it is reached, and overwritten by later cases.

    Args:
        folder: An empty folder, for the files. Outputs would be in its subfolder `output`.
    """
    folder = pathlib.Path(folder)
    output = folder / "output"
    for name, dataset in _archives(folder):
        yield f"npz: {name}", [*TRAIN, f"--dataset=npz:{dataset}", f"--workdir={output}"]
    for name, root in _folders(folder):
        yield f"folder: {name}", [*TRAIN, f"--dataset=folder:{root}", f"--workdir={output}"]
    for name, root in _tfds(folder):
        arguments = ["--dataset=malformed", f"--data_dir={root}", f"--workdir={output}"]
        yield f"tfds: {name}", [*TRAIN, *arguments]
    for name, model in _models(folder):
        if model.suffix == ".keras":
            yield f"export: {name}", ["bin/export", f"--model={model}", f"--output={output}"]
        yield (
            f"evaluate: {name}",
            [*EVALUATE, f"--model={model}", "--dataset=digits", f"--output={output}"],
        )


def _archives(folder) -> Iterator[tuple[str, pathlib.Path]]:
    path = folder / "data.npz"
    for name, changes in archives.malformed_arrays():
        arrays = archives.good_arrays() | changes
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        yield name, path
    for name, write in archives.damaged(path):
        write()
        yield name, path


def _folders(folder) -> Iterator[tuple[str, pathlib.Path]]:
    for name, spoil in folders.malformed():
        root = folder / "folders" / name
        folders.write_good(root)
        spoil(root)
        yield name, root


def _tfds(folder) -> Iterator[tuple[str, pathlib.Path]]:
    images = np.random.RandomState(0).randint(0, 256, [12, 8, 8, 3]).astype("uint8")
    split = images, [i % 3 for i in range(12)]
    for name, (pattern, spoil) in tfds_sets.DAMAGE.items():
        root = folder / "tfds" / name.replace(" ", "-")
        tfds_sets.write_set(root, "malformed", {"train": split, "test": split})
        (file,) = (root / "malformed" / "1.0.0").glob(pattern)
        spoil(file)
        yield name, root


def _models(folder) -> Iterator[tuple[str, pathlib.Path]]:
    models.write_good(folder)
    for name, write in models.malformed_files(folder / "good.keras"):
        path = folder / f"{name}.keras"
        write(path)
        yield name, path
    for name, write in models.malformed_saved_models(folder / "good"):
        path = folder / "saved_models" / name
        write(path)
        yield name, path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        names = [name for name, _ in cases(temporary)]
    print("\n".join(names), f"\n{len(names)} cases")
