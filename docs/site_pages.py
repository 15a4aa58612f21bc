"""The pages of the site that nobody writes by hand: the API, the recipes, and files from outside `docs/`."""

import importlib
import inspect
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = {
    "athe_tf": "the short way to everything that most programs need",
    "athe_tf.layers": "the cosine head, batch normalization",
    "athe_tf.models": "networks by name, heads, what an attack sees of a model",
    "athe_tf.saving": "files of models",
    "athe_tf.conversion": "PyTorch, ONNX, LiteRT",
    "athe_tf.zoo": "small robust classifiers",
    "athe_tf.data": "data sets and augmentation",
    "athe_tf.data.corruptions": "common corruptions",
    "athe_tf.attacks": "attacks",
    "athe_tf.training": "frameworks, schedules, averages",
    "athe_tf.evaluation": "protocols and sanity checks",
    "athe_tf.results": "what an evaluation returns",
    "athe_tf.report": "pages, comparisons, gates",
    "athe_tf.analysis": "why a model is robust",
    "athe_tf.distribution": "several devices and workers",
}
#: Sections of a docstring that are lists of names.
LISTS = ("Args", "Attributes", "Returns", "Raises", "Yields")
#: Files beside `docs/` that are pages of the site.
INCLUDED = {
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "changelog": "CHANGELOG.md",
    "results_files": "results/README.md",
}
GENERATED = "generated"


def setup(app):
    """What Sphinx calls."""
    app.connect("builder-inited", lambda app: write_pages(pathlib.Path(app.srcdir)))
    app.connect("source-read", follow_links)
    return {"parallel_read_safe": True}


def write_pages(docs: pathlib.Path) -> None:
    """Writes what has changed, so that a second build reads only that."""
    folder = docs / GENERATED
    folder.mkdir(exist_ok=True)
    pages = {**api_pages(), **recipe_pages(), **included_pages()}
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    texts = {f"{name}.md": text for name, text in pages.items()}
    texts |= {path.name: path.read_text() for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")}
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def follow_links(app, docname: str, source: list[str]) -> None:
    """Lets links to files outside `docs/`, which work in the repository, lead to their pages of the site."""
    up = "" if docname.startswith(f"{GENERATED}/") else f"{GENERATED}/"
    for page, path in INCLUDED.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{re.escape(path)}(#[\w-]+)?\)", rf"]({up}{page}.md\1)", source[0])
    source[0] = re.sub(
        r"\]\((?:\.\./)+README\.md(#[\w-]+)?\)", rf"]({'../' if not up else ''}index.md)", source[0]
    )


def toctree(names, **options) -> str:
    lines = [f":{name}: {value}" for name, value in options.items()]
    return "\n".join(["```{toctree}", *lines, "", *names, "```", ""])


def api_pages() -> dict[str, str]:
    """One page per public package."""
    pages = {package: api_page(package, about) for package, about in PACKAGES.items()}
    rows = [f"| [{package}]({package}.md) | {about} |" for package, about in PACKAGES.items()]
    table = "\n".join(["| package | content |", "|---|---|", *rows])
    return pages | {"api": f"# API reference\n\n{table}\n\n{toctree(pages, hidden='', maxdepth=1)}"}


def api_page(package: str, about: str) -> str:
    module = importlib.import_module(package)
    parts = [f"# {package}\n\n{about[0].upper()}{about[1:]}.\n"]
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        parts.append(f"## {name}\n\n{entry(name, value)}\n")
    return "\n".join(parts)


def entry(name: str, value) -> str:
    """The signature and the docstring of a public name; of a constant, its type."""
    if not callable(value):
        return f"A constant: `{type(value).__name__}`."
    text = f"```python\n{name}{signature_of(value)}\n```\n\n{markdown(inspect.getdoc(value) or '')}\n"
    if inspect.isclass(value):
        for member, thing in vars(value).items():
            if inspect.isfunction(thing) and not member.startswith("_") and thing.__doc__:
                first = inspect.getdoc(thing).partition("\n\n")[0].replace("\n", " ")
                text += f"\n- `{member}()`: {first}"
    return text


def signature_of(value) -> str:
    """The arguments and their defaults; one per line if there are many. Types are in the text."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    short = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    short = re.sub(r"<([\w.]+) object at 0x\w+>", r"<\1>", short)
    if len(short) < 70:
        return short
    return "(\n    " + ",\n    ".join(re.split(r", (?=\*|\w+(?:=|,|$))", short[1:-1])) + ",\n)"


def markdown(docstring: str) -> str:
    """A docstring in the format of Keras, as Markdown."""
    found = re.split(r"^(\w[\w ]*):[ ]*\n(?=[ \n])", docstring, flags=re.M)
    text = examples(found[0])
    for title, body in zip(found[1::2], found[2::2], strict=True):
        text += f"\n**{title}**\n\n"
        if title not in LISTS:
            text += examples(inspect.cleandoc("\n" + body))
            continue
        indented, _, rest = re.match(r"((?:[ ]+.*\n?|\n)*)()((?:.|\n)*)", body).groups()
        text += definitions(inspect.cleandoc("\n" + indented)) + "\n" + examples(rest)
    return text


def definitions(body: str) -> str:
    """Lines of `name: text` as a list; a text that goes on is indented."""
    return re.sub(r"^(\*{0,2}[\w.`, ]+?):\s", lambda found: f"- `{found[1]}`: ", body, flags=re.M) + "\n"


def examples(text: str) -> str:
    """Lines that begin with >>> as blocks of code, with what they give."""
    return re.sub(
        r"((?:^>>>.*\n?)(?:^(?!\n)\S?.+\n?)*)",
        lambda found: f"```pycon\n{found[1].rstrip()}\n```\n",
        text,
        flags=re.M,
    )


def recipe_pages() -> dict[str, str]:
    """One page per file of `configs/`, and their list."""
    pages, rows = {}, []
    for path in sorted((ROOT / "configs").glob("*.flags")):
        comments, flags = header(path.read_text())
        pages[f"recipe_{path.stem}"] = f"# {path.stem}\n\n{comments}\n\n```\n{flags}\n```\n"
        title = comments.strip("`\n").partition("\n")[0]
        rows.append(f"| [{path.stem}](recipe_{path.stem}.md) | {title} |")
    table = "\n".join(["| recipe | what it trains |", "|---|---|", *rows])
    text = (
        "# Recipes\n\nEach is a file of `configs/`; `bin/train --flagfile=NAME` finds it from any folder.\n\n"
    )
    return pages | {"recipes": text + table + "\n\n" + toctree(pages, hidden="", maxdepth=1)}


def header(text: str) -> tuple[str, str]:
    """The comments at the top of a recipe as text, and its flags."""
    comments = [
        line.lstrip("# ").rstrip() if line == "#" else line[2:]
        for line in text.splitlines()
        if line.startswith("#")
    ]
    flags = [line for line in text.splitlines() if line.startswith("--")]
    return "```text\n" + "\n".join(comments) + "\n```", "\n".join(flags)


def included_pages() -> dict[str, str]:
    """Files from outside of `docs/`, whose own links keep their meaning."""
    return {
        page: absolute_links((ROOT / path).read_text(), pathlib.Path(path).parent)
        for page, path in INCLUDED.items()
    }


def absolute_links(text: str, folder: pathlib.Path) -> str:
    """Links relative to `folder` of the repository, relative to the folder of generated pages."""

    def moved(found):
        target = found[1]
        if "://" in target or target.startswith("#"):
            return found[0]
        path, _, anchor = (folder / target).as_posix().partition("#")
        page = next((page for page, source in INCLUDED.items() if source == path), None)
        where = f"{page}.md" if page else f"../{path[5:]}" if path.startswith("docs/") else f"../../{path}"
        return f"]({where}{'#' * bool(anchor)}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)
