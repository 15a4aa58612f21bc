"""Examples in README.md, docs/ and docstrings run, and give what they say."""

import doctest
import importlib
import pathlib
import pkgutil
import re

import numpy as np
import pytest

import athe_tf
from tests.small_runs import tiny_batch, tiny_net

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S), 1)
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, (x, y) = tiny_net(), tiny_batch(2)
    # What a few lines in the middle of a page take for granted; whole programs import athe_tf themselves.
    names = {"athe_tf": athe_tf, "model": net, "net": net, "x": x, "y": y, "images": x, "labels": y}
    code = code.replace("epochs=10", "epochs=1")  # less time, the same code
    exec(compile(code, "example", "exec"), {} if "import athe_tf" in code else names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = page.read_text()
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_files_and_modules_exist(page):
    text = page.read_text()
    for name in set(re.findall(r"configs/[\w*]+\.flags", text)):
        assert list(ROOT.glob(name)), name
    for name in set(re.findall(r"python -m (benchmarks\.\w+)", text)):
        assert (ROOT / f"{name.replace('.', '/')}.py").exists(), name


def docstrings_with_answers():
    """The docstrings that show what an expression gives."""
    finder = doctest.DocTestFinder()
    for found in pkgutil.walk_packages(athe_tf.__path__, "athe_tf."):
        for test in finder.find(importlib.import_module(found.name), found.name):
            if any(example.want for example in test.examples):
                yield test


def test_docstrings_show_what_expressions_give():
    tests = {test.name: test for test in docstrings_with_answers()}
    del tests["athe_tf.report.writing.write"]  # needs the folder of an evaluation
    del tests["athe_tf.attacks.engine.parallel.even_batches"]  # with two cores; tests have one each
    assert len(tests) > 20
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests.values():
        test.globs |= {"athe_tf": athe_tf, "np": np}
        said: list[str] = []
        runner.run(test, out=said.append)
        assert not said, "".join(said)
