"""Files and folders that are called models, and are not, or not whole."""

import json
import os
import pathlib
import shutil
import zipfile
from collections.abc import Callable, Iterator

import athe_tf


def write_good(folder: pathlib.Path) -> None:
    """`good.keras` and the SavedModel `good`, for the digits."""
    net = athe_tf.models.build("small_cnn", 10, head="he", input_shape=(8, 8, 1))
    net.save(folder / "good.keras")
    athe_tf.export(net, folder / "good")


def malformed_files(good: pathlib.Path) -> Iterator[tuple[str, Callable[[pathlib.Path], object]]]:
    """Ways to write a malformed `.keras` file: `(name, function of its path)`."""
    content = good.read_bytes()
    for name, written in {
        "empty": b"",
        "text": b"not a model",
        "cut-in-the-middle": content[: len(content) // 2],
        "cut-at-the-end": content[:-30],
        "zip-of-nothing": b"PK\5\6" + bytes(18),
    }.items():
        yield name, lambda path, written=written: path.write_bytes(written)
    members = {
        "without-config": {"config.json": None},
        "without-weights": {"model.weights.h5": None},
        "config-not-json": {"config.json": b"{"},
        "config-a-list": {"config.json": b"[]"},
        "config-of-a-lambda": {"config.json": json.dumps(_lambda()).encode()},
        "config-of-an-unknown-class": {"config.json": json.dumps(_unknown()).encode()},
        "config-nested-deeply": {"config.json": b"[" * 100_000},
        "weights-text": {"model.weights.h5": b"not weights"},
    }
    for name, changes in members.items():
        yield name, lambda path, changes=changes: _rewritten(good, path, changes)
    yield "folder", lambda path: path.mkdir()
    yield "pipe", os.mkfifo


def malformed_saved_models(good: pathlib.Path) -> Iterator[tuple[str, Callable[[pathlib.Path], object]]]:
    """Ways to spoil a copy of a SavedModel: `(name, function of its path)`."""

    def spoiled(change: Callable[[pathlib.Path], object]):
        def write(path):
            shutil.copytree(good, path)
            change(path)

        return write

    yield "saved-model-missing", spoiled(lambda path: (path / "saved_model.pb").unlink())
    yield "saved-model-text", spoiled(lambda path: (path / "saved_model.pb").write_bytes(b"not a model"))
    yield "variables-missing", spoiled(lambda path: shutil.rmtree(path / "variables"))
    for name, text in {
        "not-json": "{",
        "a-number": "5",
        "a-list": "[1]",
        "negative-scale": '{"scale": -1}',
        "text-scale": '{"scale": "wide"}',
        "infinite-scale": '{"scale": Infinity}',
        "no-classes": '{"num_classes": 0}',
        "nested-deeply": "[" * 100_000,
    }.items():
        yield f"card-{name}", spoiled(lambda path, text=text: (path / "athe_tf.json").write_text(text))


def _lambda() -> dict:
    layer = {"class_name": "Lambda", "config": {"name": "code", "function": "code"}, "module": "keras.layers"}
    return {"class_name": "Sequential", "config": {"name": "code", "layers": [layer]}, "module": "keras"}


def _unknown() -> dict:
    return {"class_name": "Nothing", "config": {}, "module": "nowhere", "registered_name": "Nothing"}


def _rewritten(good, path, changes) -> None:
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = changes.get(name, source.read(name))
            if content is not None:
                target.writestr(name, content)
