"""Examples in README.md, docs/ and docstrings run, and give what they say."""

import ast
import contextlib
import dataclasses
import doctest
import importlib
import inspect
import io
import pathlib
import pkgutil
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.utils.options import option
from tests.doc_examples import PAGES, TUTORIALS, examples
from tests.public_packages import PACKAGES
from tests.report_case import small_evaluation, write_evaluation
from tests.small_runs import tiny_batch, tiny_net

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = [pytest.param(code, id=name) for name, code in examples()]


def public_objects():
    """The public classes and functions of the public packages; constants have no docstring."""
    for package in (*PACKAGES, "athe_tf.losses"):
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield pytest.param(value, id=f"{package}.{name}")


def what_examples_take_for_granted():
    """Names that an example of a few lines does not define."""
    net, (x, y) = tiny_net(), tiny_batch(8)
    train = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    attack = athe_tf.attacks.PGD(0.1, steps=1)
    names = {"athe_tf": athe_tf, "np": np, "keras": keras, "net": net, "model": net, "attack": attack}
    names |= {"dataclasses": dataclasses, "option": option}
    return names | {"x": x, "y": y, "images": x, "labels": y, "train": train, "validation": train}


@pytest.mark.parametrize("value", public_objects())
def test_a_public_name_has_an_example_that_runs(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("a", "b", "demo"):
        write_evaluation(tmp_path / "runs" / run, small_evaluation())
    names = dict(vars(inspect.getmodule(value))) | what_examples_take_for_granted()
    name = f"{value.__module__}.{value.__name__}"
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", names, name, None, 0)
    assert example.examples, f"The docstring of {name} has no example."
    run_doctest(example)


def run_doctest(test):
    """Runs the lines of an example; what they give is compared if the example shows it."""
    checker = doctest.OutputChecker()
    for line in test.examples:
        if line.exc_msg is not None:
            message = line.exc_msg.partition(": ")[2].partition("...")[0].strip()
            with pytest.raises(Exception, match=re.escape(message)):
                exec(compile(line.source, test.name, "exec"), test.globs)
            continue
        if not line.want:
            exec(compile(line.source, test.name, "exec"), test.globs)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(line.source, test.name, "single"), test.globs)
        right = checker.check_output(line.want, printed.getvalue(), doctest.ELLIPSIS)
        assert right, f"{test.name}: {line.source} gives {printed.getvalue()}, not {line.want}"


def write_photos(folder):
    """A folder of images as users have them: three classes, of different sizes."""
    rng = np.random.default_rng(0)
    for part in ("train", "validation", "test"):
        for number in range(24):
            image = rng.integers(0, 120, (28 + number, 40, 3))
            image[..., number % 3] += 120
            path = folder / part / f"class{number % 3}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_png(image.astype("uint8")).numpy())


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, (x, y) = tiny_net(), tiny_batch(2)
    # What a few lines in the middle of a page take for granted; whole programs import athe_tf themselves.
    names = {"athe_tf": athe_tf, "model": net, "net": net, "x": x, "y": y, "images": x, "labels": y}
    if "photos/" in code:
        write_photos(tmp_path / "photos")
    for shown, less in (
        ("epochs=10", "epochs=1"),
        ("EPOCHS = 10", "EPOCHS = 1"),
        ("examples=200", "examples=20"),
    ):
        code = code.replace(shown, less)  # less time, the same code
    exec(compile(code, "example", "exec"), {} if "import athe_tf" in code else names)


def anchors_of(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_begins_as_those_of_keras_do(path):
    header = ast.get_docstring(ast.parse(path.read_text()))
    names = [line.partition(":")[0] for line in header.splitlines()]
    assert names == ["Title", "Author", "Date created", "Last modified", "Description", "Accelerator"]


@pytest.mark.parametrize("page", [*PAGES, *TUTORIALS], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in target or target.startswith("generated/"):  # written, and checked, by `make docs`
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors_of(linked), target


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


def test_docstrings_show_what_expressions_give(tmp_path, monkeypatch):
    tests = {test.name: test for test in docstrings_with_answers()}
    del tests["athe_tf.report.writing.write"]  # needs the folder of an evaluation
    assert len(tests) > 20
    monkeypatch.chdir(tmp_path)
    for test in tests.values():
        test.globs |= what_examples_take_for_granted()
        run_doctest(test)


@pytest.mark.parametrize("page", [page for page in PAGES if re.search("GPU|TPU", page.read_text())], ids=str)
def test_a_page_about_accelerators_says_what_was_tested(page):
    assert re.search("bin/selftest|not tested", page.read_text(), re.IGNORECASE)
