"""HTML and SVG as nested function calls, and the frame of every page; what is not markup is escaped.

Texts of an evaluation (names of models, remarks, file names) are not trusted. They cannot become tags,
because only `tag` returns `Markup`.
"""

import html
import importlib.resources
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from athe_tf.version import __version__

# Characters of the name of a row that stays on one line.
SHORT = 26
# Elements without an end tag.
VOID = ("br", "img", "meta")


class Markup(str):
    """Text that is HTML already."""


def join(children) -> Markup:
    """Concatenates pieces, and escapes plain text."""
    pieces = (child if isinstance(child, Markup) else html.escape(str(child)) for child in children)
    return Markup("".join(pieces))


def tag(name: str, /, *children, **attributes) -> Markup:
    """An element. Attributes that are `None` are omitted; `aria_label` becomes `aria-label`.

    Example:

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def table(head, rows, *, caption: str, numeric_from: int = 1, row_classes=()) -> Markup:
    """A table that scrolls sideways in its own box; its first column contains row headers.

    Columns from `numeric_from` on are aligned as numbers; `row_classes` has a CSS class or `None` per row.
    """
    kinds = [None if column < numeric_from else "number" for column in range(len(head))]
    header = [tag("th", title, scope="col", class_=kind) for title, kind in zip(head, kinds, strict=True)]
    lines = [
        tag("tr", *(_cell(column, value, numeric_from) for column, value in enumerate(row)), class_=kind)
        for row, kind in zip(rows, list(row_classes) or [None] * len(rows), strict=True)
    ]
    inner = tag("table", tag("caption", caption), tag("thead", tag("tr", *header)), tag("tbody", *lines))
    return scrolling(inner, caption)


def _cell(column: int, value, numeric_from: int) -> Markup:
    if isinstance(value, Markup) and value.startswith("<td"):
        return value
    if column == 0:
        return tag("th", value, scope="row", class_="short" if len(str(value)) <= SHORT else None)
    return tag("td", value, class_="number" if column >= numeric_from else None)


def shaded(share: float | None, text: str) -> Markup:
    """A table cell whose background shows a share of 1, in addition to the text."""
    if share is None:
        return tag("td", text, class_="number")
    strength = round(100 * min(max(share, 0.0), 1.0))
    return tag("td", text, class_="number shaded", style=f"--share:{strength}%")


def details(summary: str, *children) -> Markup:
    """Content that is folded behind a line of text."""
    return tag("details", tag("summary", summary), *children)


#: The sections of a page: the anchor for links, the title, and the function that makes the content.
Sections = Mapping[str, tuple[str, Callable[[Any], Sequence[Markup]]]]


# No script, no font and no image but those inside the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, opening: Sequence[Markup], sections: Sections, subject, kind: str = "page") -> str:
    """A complete HTML page about a subject that loads nothing from outside; empty sections are left out.

    `kind` is the CSS class of its content.
    """
    made = [(anchor, heading, content(subject)) for anchor, (heading, content) in sections.items()]
    filled = [(anchor, heading, content) for anchor, heading, content in made if content]
    links = [tag("li", tag("a", heading, href=f"#{anchor}")) for anchor, heading, _ in filled]
    contents = tag("nav", tag("ul", *links), aria_label="Contents")
    body = [tag("section", tag("h2", heading), *content, id=anchor) for anchor, heading, content in filled]
    foot = tag("footer", f"Written by athe_tf {__version__}.")
    parts = [tag("h1", title), *opening, contents, *body, foot]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", style(), Markup("@page { margin: 14mm; }")),
    )
    # Inline, because the style sheet only applies inside `.athe-tf`.
    framed = tag("div", tag("main", *parts, class_=kind), class_="athe-tf")
    return f"<!doctype html>\n{tag('html', head, tag('body', framed, style='margin:0'), lang='en')}\n"


def fragment(*children) -> Markup:
    """Content with its style sheet, for a notebook."""
    return tag("div", tag("style", style()), *children, class_="athe-tf fragment")


def style() -> Markup:
    """The style sheet, which is part of the page."""
    file = importlib.resources.files("athe_tf.drawing").joinpath("style.css")
    return Markup(file.read_text(encoding="utf-8"))


def alert(title: str, texts: Sequence, link: str | None = None) -> Markup:
    """A highlighted box; empty without texts."""
    if not texts:
        return Markup("")
    more = tag("p", tag("a", "Details", href=link)) if link else ""
    return tag("div", tag("p", tag("strong", title)), notes(texts), more, class_="alert", role="note")


def notes(texts: Sequence) -> Markup:
    """A list of remarks; empty without any."""
    return tag("ul", *(tag("li", text) for text in texts), class_="notes") if texts else Markup("")


def key_figures(figures: Sequence[tuple[str, str, str]]) -> Markup:
    """Large numbers: `(number, name, small print)`."""
    items = [tag("li", tag("b", number), name, tag("small", small)) for number, name, small in figures]
    return tag("ul", *items, class_="figures")


def scrolling(content: Markup, label: str) -> Markup:
    """A box that scrolls sideways; it must be reachable by keyboard."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def side_by_side(*figures: Markup) -> Markup:
    """Figures in two columns if there is room."""
    return tag("div", *figures, class_="columns")
