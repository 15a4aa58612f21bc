"""Text from files, made safe for a terminal.

Names in an `evaluation.json` or a `config.json` may come from anybody. Escape sequences in them could
recolour, move or overwrite what a terminal shows.
"""

import re
import unicodedata

# Sequences with an end (colours, cursor; titles, links), then those of one character.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Controls, separators of lines and paragraphs.
_CATEGORIES = ("Cc", "Zl", "Zp")
# Characters that reverse the direction of what follows.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_control(character: str) -> bool:
    """Whether a character is not shown but acted on: line breaks, tabs, escapes."""
    return unicodedata.category(character) in _CATEGORIES


def printable(text) -> str:
    r"""A text without escape sequences and control characters other than line breaks and tabs.

    Example:

    >>> printable("pgd-20\x1b[31m in red")
    'pgd-20 in red'
    """
    # No encoding has lone surrogates, which JSON and names of files can contain.
    shown = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    kept = _ESCAPES.sub("", shown)
    return "".join(c for c in kept if c in "\n\t" or not (is_control(c) or c in _DIRECTIONS))


def one_line(text) -> str:
    r"""The same on one line, for cells of tables and names.

    Example:

    >>> one_line("pgd-20\nworst case 99 %")
    'pgd-20 worst case 99 %'
    """
    return " ".join(printable(text).split())
