"""Reads the analyses that belong to an evaluation: their captions and pictures."""

import dataclasses
import pathlib

from athe_tf.drawing.png import SIGNATURE
from athe_tf.results.json_files import read_json
from athe_tf.utils.errors import InputError, check

#: The folder of analyses inside an evaluation, or beside it.
FOLDER = "analysis"
# Of all pictures together, so that a page stays small.
MOST_BYTES = 2**20
AGAIN = "Run the analysis again."


@dataclasses.dataclass(frozen=True)
class SavedAnalysis:
    """An analysis with its pictures.

    Attributes:
        name: Of the analysis.
        summary: What it shows, in a few words.
        caption: What to see in the pictures, with numbers and settings.
        pictures: The content of PNG files.
    """

    name: str
    summary: str
    caption: str
    pictures: tuple[bytes, ...]


def find_analyses(evaluation: pathlib.Path) -> pathlib.Path | None:
    """The folder of analyses inside the folder of an evaluation, or beside it; `None` if there is none."""
    # Resolved: the parent of a relative path such as `.` has no name.
    places = (evaluation / FOLDER, evaluation.resolve().parent / FOLDER)
    return next((place for place in places if any(place.glob("*.json"))), None)


def read_analyses(folder: pathlib.Path) -> tuple[list[SavedAnalysis], list[str]]:
    """The finished analyses of a folder, and remarks about files that are left out."""
    found, notes, size = [], [], 0
    for path in sorted(folder.glob("*.json")):
        try:
            analysis = read_analysis(path)
            size += sum(map(len, analysis.pictures)) if analysis else 0
            check(size <= MOST_BYTES, f"The pictures up to '{path}' have more than {MOST_BYTES:,} bytes.")
        except InputError as error:
            notes.append(f"An analysis is left out: {error}")
            continue
        if analysis is not None:
            found.append(analysis)
    return found, notes


def read_analysis(path: pathlib.Path) -> SavedAnalysis | None:
    """An analysis from its JSON file; `None` if the file is another one, or has no pictures yet."""
    content = read_json(path, AGAIN)
    if not isinstance(content, dict) or content.get("athe_tf") != "analysis":
        return None
    name, summary, caption, pictures = (
        content.get(key) for key in ("analysis", "summary", "caption", "pictures")
    )
    if not (isinstance(name, str) and isinstance(summary, str) and isinstance(caption, str)):
        raise InputError(f"'{path}' has no name, summary or caption. {AGAIN}")
    if not isinstance(pictures, list):
        raise InputError(f"'{path}' has no list of pictures. {AGAIN}")
    found = tuple(read_picture(path.parent, picture) for picture in pictures)
    return SavedAnalysis(name, summary, caption, found) if found else None


def read_picture(folder: pathlib.Path, name) -> bytes:
    """The content of a PNG file of a folder; no path that leads elsewhere is followed."""
    plain = isinstance(name, str) and pathlib.PurePath(name).name == name
    check(plain, f"'{folder}' names a picture outside of it: {str(name)[:60]!r}. {AGAIN}")
    path = folder / name
    check(path.is_file() and not path.is_symlink(), f"There is no picture '{path}'. {AGAIN}")
    check(path.stat().st_size <= MOST_BYTES, f"'{path}' has more than {MOST_BYTES:,} bytes. {AGAIN}")
    content = path.read_bytes()
    check(content.startswith(SIGNATURE), f"'{path}' is not a PNG file. {AGAIN}")
    return content
