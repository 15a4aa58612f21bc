"""One home for every fact: a second definition, wording or door fails here.

Each row is a search in the code of the package, without docstrings and comments, and the only files in which
it may find something. The table "One home for every fact" of the design says which facts these are.
"""

import ast
import collections
import functools
import inspect
import pathlib
import re

import pytest

import athe_tf

ROOT = pathlib.Path(inspect.getfile(athe_tf)).parent


class WithoutTexts(ast.NodeTransformer):
    """Takes docstrings out, and other texts that stand alone."""

    def visit_Expr(self, node):
        return ast.Pass() if isinstance(node.value, ast.Constant) else node


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every module, by its path below the package, without comments and docstrings."""
    paths = sorted(ROOT.rglob("*.py"))
    return {
        path.relative_to(ROOT).as_posix(): WithoutTexts().visit(ast.parse(path.read_text())) for path in paths
    }


@functools.cache
def code() -> dict[str, str]:
    """The source of these trees."""
    return {name: ast.unparse(tree) for name, tree in trees().items()}


def homes(pattern: str) -> list[str]:
    """The files that contain a pattern, once for each time."""
    return [name for name, text in code().items() for _ in re.finditer(pattern, text)]


# Where a fact is defined: a pattern that matches its definition, and its only home.
DEFINED_ONCE = {
    # Options.
    r"def option\(": "utils/options.py",
    r"def make_options\(": "utils/options.py",
    r"class DerivedSignature": "utils/options.py",
    r"flags\.DEFINE_boolean|flags\.DEFINE_\w+\(self": "programs/command_line.py",
    r"def from_json\(": "programs/config/serialization.py",
    # Which job this is.
    r"fcntl\.flock\(": "jobs/locks.py",
    r"def same_job\(": "jobs/journal.py",
    r"def is_ours\(": "jobs/ownership.py",
    r"shutil\.rmtree\(": "utils/files.py",
    # How a model is opened, and how the images of its run are prepared.
    r"def open_model\(": "saving/opening.py",
    r"def victim_of\(": "models/victim.py",
    r"def read_card\(": "models/card.py",
    r"athe_tf\.json": "models/card.py",
    r"keras\.models\.load_model\(": "saving/keras_file.py",
    r"tf\.saved_model\.load\(": "saving/saved_model.py",
    r"InferenceSession\(": "conversion/onnx_import.py",
    r"\bInterpreter\(": "conversion/runtime_model.py",
    r"def keras_digest\(": "models/digest.py",
    r"def fill_from_run\(": "programs/workdir.py",
    r"data\.load\(str\(config\.dataset\)": "programs/workdir.py",
    # What images and labels must be.
    r"Images must lie in": "utils/images_and_labels.py",
    r"Labels must be integers in ": "utils/images_and_labels.py",
    r"Labels must not be negative": "utils/images_and_labels.py",
    r"have their channels first": "utils/images_and_labels.py",
    r"Number the classes from 0": "utils/images_and_labels.py",
    r"Images and labels differ in number": "utils/images_and_labels.py",
    # What a pass costs: an attack says what a step costs, and the loop counts.
    r"class Costs\(": "attacks/engine/results.py",
    r"def shrinking_loop\(": "attacks/engine/loop.py",
    r"\.queries \+= queries": "attacks/engine/driver.py",
    # What a result says.
    r"\b1\.959963984540054\b": "results/intervals.py",
    r"def wilson_interval\(": "results/intervals.py",
    r"def worst_case_accuracy\(": "results/result.py",
    r"def not_covered\(": "results/result.py",
    r"def percent\(": "utils/number_format.py",
    # How an error of another library becomes one of our messages.
    r"def first_line\(": "utils/errors.py",
    r"def cause\(": "utils/errors.py",
    # Random layers, gradients and conditions of a number that is true.
    r"def finite_gradient\(": "attacks/engine/gradients.py",
    r"def misclassified\(": "attacks/engine/results.py",
    r"def keras_state\(": "models/digest.py",
    r"def source_fingerprint\(": "data/sources.py",
    r"def conditions\(": "programs/conditions.py",
}


@pytest.mark.parametrize("pattern", DEFINED_ONCE)
def test_a_fact_has_one_home(pattern):
    assert homes(pattern) == [DEFINED_ONCE[pattern]]


# What only these files may do, in any number of places.
ONLY_THERE = {
    # A file of somebody else cannot be removed by accident where nothing is removed.
    r"\.unlink\(|\.rmdir\(|os\.remove\(|rmtree\(": {
        "jobs/journal.py", "jobs/locks.py", "jobs/ownership.py", "programs/sharded.py", "report/writing.py",
        "results/result.py", "utils/files.py",
    },
    # Paths of a config are followed by one function, after a comparison of fingerprints.
    r"\bsource_fingerprint\(": {"data/sources.py", "programs/run.py", "programs/workdir.py"},
    # Other libraries' errors are cut to a line in one place.
    r"str\((error|exception|problem)\)\.(split|partition|splitlines)": set(),
    # Files are replaced as a whole.
    r"os\.replace\(": {"utils/files.py"},
    # Passes are counted by the loop and the machinery: the attacks say what a step costs.
    r"\.gradients \+=|\.queries \+=": {"attacks/engine/driver.py", "evaluation/sanity.py"},
    # Statistics of a share.
    r"np\.sqrt\([^\n]*1 - |norm\.ppf": {"results/intervals.py"},
}  # fmt: skip


@pytest.mark.parametrize("pattern", ONLY_THERE)
def test_nothing_else_does_it(pattern):
    assert set(homes(pattern)) <= ONLY_THERE[pattern]


def calls_of(name: str):
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                yield path, node


def text_of(node) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_an_option_is_described_once():
    texts = collections.Counter(text_of(call.args[1]) for _, call in calls_of("option") if len(call.args) > 1)
    assert len(texts) > 100
    assert [text for text, count in texts.items() if text and count > 1] == []


def test_a_message_is_written_once():
    """The first words of an error: two checks of the same thing would begin alike."""
    found = collections.defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            named = isinstance(node, ast.Call) and getattr(node.func, "id", "")
            if named == "InputError" and node.args:
                message = node.args[0]
            elif named == "check" and len(node.args) > 1:
                message = node.args[1]
            else:
                continue
            parts = message.values if isinstance(message, ast.JoinedStr) else [message]
            whole = "".join(text_of(part) or "{}" for part in parts)
            found[whole].add(path)
    assert len(found) > 300
    assert {text: places for text, places in found.items() if len(places) > 1 and len(text) > 20} == {}
