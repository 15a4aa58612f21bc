"""Pictures in Python: a notebook shows them, `save` writes them."""

import pathlib

from athe_tf.drawing.files import charts_of, svg_text, write_pdf
from athe_tf.drawing.markup import Markup, fragment, join
from athe_tf.utils.errors import check
from athe_tf.utils.files import replacing, write_text


class Figure:
    """Charts and pictures of an object; the last value of a notebook's cell shows itself.

    Example:

    >>> figure = result.plot()
    >>> figure.save("accuracy.svg")  # or .pdf, .html

    Args:
        *parts: The markup.
    """

    def __init__(self, *parts: Markup):
        self.parts = parts

    @property
    def charts(self) -> list[Markup]:
        """The charts, without captions and tables."""
        return charts_of(join(self.parts))

    def save(self, path) -> None:
        """Writes the first chart as SVG or PDF, or everything as HTML, as the ending of the path says."""
        path = pathlib.Path(path)
        check(
            path.suffix in (".svg", ".pdf", ".html"),
            f"A figure is saved as .svg, .pdf or .html. Received: '{path.name}'.",
        )
        check(
            path.suffix == ".html" or bool(self.charts), "There is no chart in this figure. Save it as .html."
        )
        if path.suffix == ".pdf":
            with replacing(path) as temporary:
                write_pdf(self.charts[0], temporary)
        else:
            write_text(path, svg_text(self.charts[0]) if path.suffix == ".svg" else self._repr_html_())

    def _repr_html_(self) -> str:
        return fragment(*self.parts)

    def __repr__(self) -> str:
        return f"<Figure with {len(self.charts)} charts: show it in a notebook, or use .save('figure.svg')>"
