"""The Python examples of README.md, docs/ and the tutorials, for those who run them and for type checkers.

`python -m tests.doc_examples FOLDER` writes them as files, for example for `pyright FOLDER`.
"""

import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
# The names that a few lines in the middle of a page take for granted.
TAKEN_FOR_GRANTED = """\
import athe_tf
import numpy as np

net = model = athe_tf.models.build("small_cnn", num_classes=4, head="he", input_shape=(8, 8, 1))
x = images = np.zeros((2, 8, 8, 1))
y = labels = np.zeros(2, int)
"""


def examples() -> Iterator[tuple[str, str]]:
    """Names and code of the examples."""
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
        for number, code in enumerate(blocks, 1):
            yield f"{page.stem}-{number}", code
    for path in TUTORIALS:
        yield path.stem, path.read_text()


def write(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes every example as a program of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, code in examples():
        paths.append(folder / f"{name.replace('-', '_')}.py")
        paths[-1].write_text(code if "import athe_tf" in code else TAKEN_FOR_GRANTED + code)
    return paths


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
