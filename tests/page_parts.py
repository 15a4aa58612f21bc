"""Takes a page apart, as a browser would."""

from html.parser import HTMLParser

VOID = {"br", "img", "meta"}


class Page(HTMLParser):
    """The elements, attributes and texts of a page; raises when its tags do not nest.

    `tables` has the cells of every table, row by row, the head first, by its caption.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.stack: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._caption: str | None = None
        self.feed(text)
        self.close()
        assert self.stack == [], f"never closed: {self.stack}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "tr":
            self.tables[self._caption].append([])
        elif tag in ("th", "td"):
            self.tables[self._caption][-1].append("")

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, f"</{tag}> inside {self.stack[-3:]}"
        self.stack.pop()

    def handle_data(self, data):
        if not self.stack or self.stack[-1] != "style":
            self.texts.append(data)
        if self.stack and self.stack[-1] == "caption":
            self._caption = data
            self.tables[data] = []
        elif "th" in self.stack or "td" in self.stack:
            row = self.tables[self._caption][-1]
            row[-1] = f"{row[-1]} {data}".strip()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag) -> list[dict]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def sections(self) -> list[str]:
        return [attributes["id"] for attributes in self.all("section")]
