"""A section of a report."""

from athe_tf.report.markup import Markup, tag


class Section:
    """A title, the anchor for links, and the content."""

    def __init__(self, title: str, anchor: str, *content):
        self.title, self.anchor = title, anchor
        self.html = tag("section", tag("h2", title), *content, id=anchor)


def paragraph(*children) -> Markup:
    return tag("p", *children)


def side_by_side(*figures: Markup) -> Markup:
    """Figures in two columns if there is room."""
    return tag("div", *figures, class_="columns")
