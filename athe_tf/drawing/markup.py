"""HTML and SVG as nested function calls; everything that is not markup is escaped.

Texts of an evaluation (names of models, remarks, file names) are not trusted. They cannot become tags,
because only `tag` returns `Markup`.
"""

import html

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

    Args:
        head: Titles of the columns.
        rows: Cells, each a text or `Markup`.
        caption: What the table shows; displayed above it.
        numeric_from: The first column that is aligned as numbers. Defaults to 1.
        row_classes: A CSS class per row, or `None`.
    """
    kinds = [None if column < numeric_from else "number" for column in range(len(head))]
    header = [tag("th", title, scope="col", class_=kind) for title, kind in zip(head, kinds, strict=True)]
    lines = [
        tag("tr", *(_cell(column, value, numeric_from) for column, value in enumerate(row)), class_=kind)
        for row, kind in zip(rows, list(row_classes) or [None] * len(rows), strict=True)
    ]
    inner = tag("table", tag("caption", caption), tag("thead", tag("tr", *header)), tag("tbody", *lines))
    # A scrolling box must be reachable by keyboard.
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(column: int, value, numeric_from: int) -> Markup:
    if isinstance(value, Markup) and value.startswith("<td"):
        return value
    if column == 0:
        return tag("th", value, scope="row")
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
