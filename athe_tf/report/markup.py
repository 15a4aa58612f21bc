"""HTML and SVG as nested function calls; whatever is not markup already is escaped.

Texts of an evaluation (names of models, remarks, file names) come from anywhere. Nothing of them can become
a tag here, because only `tag` makes `Markup`.
"""

import html

# Elements that have no end tag.
VOID = ("br", "img", "meta")


class Markup(str):
    """Text that is HTML already."""


def join(children) -> Markup:
    """Puts pieces one after another, and escapes those that are plain text."""
    return Markup(
        "".join(child if isinstance(child, Markup) else html.escape(str(child)) for child in children)
    )


def tag(name: str, /, *children, **attributes) -> Markup:
    """An element. Attributes that are `None` are left out; `class_` is `class`, `aria_label` `aria-label`.

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
    """A table that scrolls sideways in its own box; its first column heads the rows.

    Args:
        head: Titles of the columns.
        rows: Cells, each a text or `Markup`.
        caption: What the table shows; read by screen readers, and shown above it.
        numeric_from: Columns from here on are aligned as numbers.
        row_classes: A class for each row, or `None`.
    """
    classes = list(row_classes) or [None] * len(rows)
    header = [
        tag("th", title, scope="col", class_="number" if column >= numeric_from else None)
        for column, title in enumerate(head)
    ]
    lines = [
        tag("tr", *(_cell(column, value, numeric_from) for column, value in enumerate(row)), class_=kind)
        for row, kind in zip(rows, classes, strict=True)
    ]
    inner = tag("table", tag("caption", caption), tag("thead", tag("tr", *header)), tag("tbody", join(lines)))
    # A box that scrolls must be reachable with the keyboard.
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(column: int, value, numeric_from: int) -> Markup:
    if isinstance(value, Markup) and value.startswith("<td"):
        return value
    if column == 0:
        return tag("th", value, scope="row")
    return tag("td", value, class_="number" if column >= numeric_from else None)


def shaded(share: float | None, text: str) -> Markup:
    """A table cell whose background is as strong as a share of 1; the text says the same."""
    if share is None:
        return tag("td", text, class_="number")
    strength = round(100 * min(max(share, 0.0), 1.0))
    return tag("td", text, class_="number shaded", style=f"--share:{strength}%")


def details(summary: str, *children) -> Markup:
    """What stands folded behind a line of text."""
    return tag("details", tag("summary", summary), *children)
