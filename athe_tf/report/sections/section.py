"""What a part of a report is."""

import dataclasses

from athe_tf.report.markup import Markup, join, tag


@dataclasses.dataclass(frozen=True)
class Section:
    """A title, the name by which links find it, and its content."""

    title: str
    anchor: str
    body: Markup

    def html(self) -> Markup:
        return tag("section", tag("h2", self.title), self.body, id=self.anchor)


def paragraph(*children) -> Markup:
    return tag("p", *children)


def side_by_side(*figures: Markup) -> Markup:
    """Figures in two columns where there is room."""
    return tag("div", join(figures), class_="columns")
