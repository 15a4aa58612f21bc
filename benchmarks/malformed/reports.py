"""Malformed files that `bin/report` reads: evaluations, adversarial examples, and files of training runs."""

import copy
import io
import json
import os
import pathlib
import struct
import zipfile
from collections.abc import Callable, Iterator

import numpy as np

from tests.report_case import CONFIG, example_images, full_evaluation, small_evaluation, write_evaluation

#: Places of an evaluation, as keys, and values that do not belong there.
NUMBERS = (
    ("clean_accuracy",), ("clean_interval", 0), ("attacks", 0, "accuracy"), ("attacks", 0, "seconds"),
    ("attacks", 0, "queries"), ("per_class", "clean", 0), ("curve", 0, "epsilon"), ("labels", 0),
    ("corruptions", "mca"), ("calibration", "clean", "ece"), ("angles", "edges", 0),
)  # fmt: skip
RAW_VALUES = {"NaN": "NaN", "infinite": "-Infinity", "huge": str(10**400), "overflow": "1e999"}
VALUES = {"text": "high", "list": [], "object": {}, "large": 10**18 + 0.5, "negative": -1, "true": True}
_PLACEHOLDER = '"@value@"'


def cases(folder: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """Writes malformed files, each into a folder of its own.

    Args:
        folder: An empty folder.

    Yields:
        The name of a case, and the command line that reads its file: it must end with exit code 2, a message,
        and nothing written.
    """
    for part in (evaluations, broken_evaluations, archives, runs):
        for name, write in part():
            place = folder / name.replace(" ", "_").replace("/", "_")
            write(place)
            yield name, ["bin/report", str(place)]


# -- evaluation.json ----------------------------------------------------------------------------------------


def evaluations() -> Iterator[tuple[str, Callable]]:
    """Values that do not belong where they are."""
    for path in NUMBERS:
        shown = ".".join(map(str, path))
        for kind, raw in RAW_VALUES.items():
            yield f"evaluation {shown} {kind}", _evaluation(path, raw)
        for kind, value in VALUES.items():
            if not (kind in ("large", "negative") and path in (("angles", "edges", 0), ("labels", 0))):
                yield f"evaluation {shown} {kind}", _evaluation(path, json.dumps(value))


def _evaluation(path: tuple, raw: str) -> Callable[[pathlib.Path], None]:
    data = full_evaluation()
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = json.loads(_PLACEHOLDER)
    return lambda place: _write_text(place, json.dumps(data).replace(_PLACEHOLDER, raw))


def broken_evaluations() -> Iterator[tuple[str, Callable]]:
    """Files that are no evaluation at all."""
    whole = json.dumps(small_evaluation())
    texts: dict[str, str | bytes] = {
        "empty": "",
        "cut": whole[: len(whole) // 2],
        "a list": "[]",
        "a number": "3",
        "null": "null",
        "empty object": "{}",
        "deep": '{"a": ' * 100_000,
        "deep and closed": '{"a": ' * 200 + "1" + "}" * 200,
        "deep settings": whole[:-1] + ', "settings": ' + '{"a": ' * 200 + "1" + "}" * 201,
        "not UTF-8": whole.encode("utf-16"),
        "zeros": bytes(1000),
        "a newer format": json.dumps({**small_evaluation(), "format": 99}),
        "a format of text": json.dumps({**small_evaluation(), "format": "two"}),
        "an attack without a name": json.dumps({**small_evaluation(), "attacks": [{}]}),
        "attacks as text": json.dumps({**small_evaluation(), "attacks": "fgsm"}),
        "epsilon by zero": json.dumps({**small_evaluation(), "epsilon": "8/0"}),
        "lists of two lengths": json.dumps(
            {**small_evaluation(), "per_class": {"clean": [1], "worst_case": [1, 1], "count": [1]}}
        ),
        "a digest of text": json.dumps({**small_evaluation(), "run": "..", "run_digest": "../../etc"}),
    }
    for name, text in texts.items():
        yield f"evaluation {name}", lambda place, text=text: _write_text(place, text)
    for key in ("model", "attacks", "versions", "clean_interval"):
        data = small_evaluation()
        del data[key]
        yield f"evaluation without {key}", lambda place, data=data: _write_text(place, json.dumps(data))
    yield "evaluation is a folder", lambda place: (place / "evaluation.json").mkdir(parents=True)
    yield "evaluation is a pipe", _pipe


def _write_text(place: pathlib.Path, text: str | bytes) -> None:
    place.mkdir(parents=True)
    (place / "evaluation.json").write_bytes(text if isinstance(text, bytes) else text.encode())


def _pipe(place: pathlib.Path) -> None:
    place.mkdir(parents=True)
    os.mkfifo(place / "evaluation.json")


# -- examples.npz -------------------------------------------------------------------------------------------


def archives() -> Iterator[tuple[str, Callable]]:
    """Archives of adversarial examples."""
    whole = _archive(example_images())
    contents = {
        "empty": b"",
        "text": b"no archive",
        "cut": whole[: len(whole) // 2],
        "one array": _array(np.zeros(3)),
        "flipped bytes": _flipped(_archive(example_images(), zipfile.ZIP_DEFLATED)),
        "encrypted": _with_flag(whole, flag=1),
        "unknown compression": _with_method(whole, 97),
        "a member that is no array": _archive({}, text=b"hello"),
        "a huge header": _archive({}, clean=_huge_header()),
        "objects": _archive({}, clean=_array(np.array([{}], dtype=object), allow_pickle=True)),
        "a header that is no header": _archive({}, clean=b"\x93NUMPY\x01\x00\x10\x00((((((((((((((((\n"),
    }
    for name, content in contents.items():
        yield f"examples {name}", lambda place, content=content: _write_examples(place, content)
    images = example_images()
    changes: dict[str, dict] = {
        "without adversarial": {"adversarial": None},
        "of two lengths": {"norm": np.zeros(2)},
        "of two shapes": {"adversarial": images["adversarial"][:, :4]},
        "of text": {"clean": np.full(images["clean"].shape, "x")},
        "complex": {"clean": images["clean"].astype("complex64")},
        "not finite": {"clean": images["clean"] * np.nan},
        "in 0..255": {"clean": images["clean"] * 255},
        "of no size": {name: images[name][:, :0] for name in ("clean", "adversarial")},
        "flat": {name: images[name].reshape(8, -1) for name in ("clean", "adversarial")},
        "with a negative class": {"label": images["label"] - 5},
        "with fractions of classes": {"adversarial_prediction": images["label"] + 0.5},
        "with numbers for attacks": {"attack": np.arange(8)},
        "with infinite norms": {"norm": np.full(8, np.inf)},
    }
    for name, change in changes.items():
        arrays = {key: value for key, value in {**images, **change}.items() if value is not None}
        yield f"examples {name}", lambda place, arrays=arrays: _write_examples(place, _archive(arrays))


def _write_examples(place: pathlib.Path, content: bytes) -> None:
    write_evaluation(place, small_evaluation())
    (place / "evaluation" / "examples.npz").write_bytes(content)


def _array(array, allow_pickle=False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def _archive(arrays: dict, compression=zipfile.ZIP_STORED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", _array(array))
        for name, content in members.items():
            archive.writestr("notes.txt" if name == "text" else f"{name}.npy", content)
    return buffer.getvalue()


def _huge_header() -> bytes:
    buffer = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**14, 32, 32, 3)}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


def _flipped(content: bytes) -> bytes:
    changed = bytearray(content)
    for position in range(200, min(1200, len(changed) // 2), 7):
        changed[position] ^= 0xFF
    return bytes(changed)


def _with_flag(content: bytes, flag: int) -> bytes:
    """A zip archive whose entries have another general-purpose flag."""
    return _patched(content, {b"PK\x03\x04": 6, b"PK\x01\x02": 8}, flag)


def _with_method(content: bytes, method: int) -> bytes:
    """A zip archive whose entries claim another compression."""
    return _patched(content, {b"PK\x03\x04": 8, b"PK\x01\x02": 10}, method)


def _patched(content: bytes, offsets: dict[bytes, int], value: int) -> bytes:
    changed = bytearray(content)
    for signature, offset in offsets.items():
        position = changed.find(signature)
        while position >= 0:
            changed[position + offset : position + offset + 2] = struct.pack("<H", value)
            position = changed.find(signature, position + 4)
    return bytes(changed)


# -- files of a training run --------------------------------------------------------------------------------


def runs() -> Iterator[tuple[str, Callable]]:
    """Evaluations inside training runs whose files are malformed."""
    configs = {
        "of something else": {"architectures": ["Bert"]},
        "with a seed of text": {**CONFIG, "seed": "zero"},
        "with odd options": {**CONFIG, "options": {"beta": {"a": 1}}},
        "of a newer format": {**CONFIG, "format": 99},
        "that is a list": [],
    }
    for name, config in configs.items():
        yield f"run config {name}", lambda place, config=config: _run(place, config=config)
    metrics = {
        "not UTF-8": b"\xff\xfe\x00epoch",
        "a huge cell": b"epoch,loss\n1," + b"1" * 200_000,
    }
    for name, content in metrics.items():
        yield f"run metrics {name}", lambda place, content=content: _run(place, metrics=content)
    best = {"empty": b"", "cut": b'{"epoch": ', "NaN": b'{"epoch": NaN}', "deep": b"[" * 100_000}
    for name, content in best.items():
        yield f"run best {name}", lambda place, content=content: _run(place, best=content)


def _run(place: pathlib.Path, config=CONFIG, metrics: bytes | None = None, best: bytes | None = None) -> None:
    write_evaluation(place, small_evaluation(), copy.deepcopy(config), metrics=True)
    if metrics is not None:
        (place / "metrics.csv").write_bytes(metrics)
    if best is not None:
        (place / "best.json").write_bytes(best)
