"""The public API is what was published: names, signatures, and methods of public classes."""

import difflib
import pathlib

from tests.public_api import lines

PUBLISHED = pathlib.Path(__file__).with_name("public_api.txt")


def test_the_public_api_is_what_was_published():
    published, now = PUBLISHED.read_text().splitlines(), lines()
    changes = [line for line in difflib.unified_diff(published, now, lineterm="", n=0) if line[0] in "+-"]
    assert published == now, "\n".join(
        ["`python -m tests.public_api > tests/public_api.txt`, and a line in CHANGELOG.md:", *changes]
    )
