"""The frame of every page: head, style, title, contents, sections, footer; and what stands in it."""

import importlib.resources
from collections.abc import Sequence

from athe_tf.drawing.markup import Markup, tag
from athe_tf.version import __version__


class Section:
    """A title, the anchor for links, and the content."""

    def __init__(self, title: str, anchor: str, *content):
        self.title, self.anchor = title, anchor
        self.html = tag("section", tag("h2", title), *content, id=anchor)


def page(title: str, opening: Sequence[Markup], sections: Sequence[Section]) -> str:
    """A complete HTML page that loads nothing from outside."""
    links = [tag("li", tag("a", part.title, href=f"#{part.anchor}")) for part in sections]
    contents = tag("nav", tag("ul", *links), aria_label="Contents")
    foot = tag("footer", f"Written by athe_tf {__version__}.")
    parts = [tag("h1", title), *opening, contents, *(part.html for part in sections), foot]
    body = tag("main", *parts, class_="page")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", style()),
    )
    # Inline, because the style sheet only applies inside `.athe-tf`.
    framed = tag("body", tag("div", body, class_="athe-tf"), style="margin:0")
    return "<!doctype html>\n" + tag("html", head, framed, lang="en") + "\n"


def style() -> Markup:
    """The style sheet, which is part of the page."""
    file = importlib.resources.files("athe_tf.drawing").joinpath("style.css")
    return Markup(file.read_text(encoding="utf-8"))


def alert(title: str, texts: Sequence, link: str | None = None) -> Markup:
    """A highlighted box; empty without texts."""
    if not texts:
        return Markup("")
    items = tag("ul", *(tag("li", text) for text in texts), class_="notes")
    more = tag("p", tag("a", "Details", href=link)) if link else ""
    return tag("div", tag("p", tag("strong", title)), items, more, class_="alert", role="note")


def key_figures(figures: Sequence[tuple[str, str, str]]) -> Markup:
    """Large numbers: `(number, name, small print)`."""
    items = [tag("li", tag("b", number), name, tag("small", small)) for number, name, small in figures]
    return tag("ul", *items, class_="figures")


def paragraph(*children) -> Markup:
    """A paragraph of text."""
    return tag("p", *children)


def side_by_side(*figures: Markup) -> Markup:
    """Figures in two columns if there is room."""
    return tag("div", *figures, class_="columns")
