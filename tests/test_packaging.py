"""What the package says of itself where the repository is not at hand."""

import ast
import pathlib
import re
import sys
from importlib import metadata

import pytest
from setuptools._distutils.core import run_setup

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def setup():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return run_setup("setup.py", stop_after="init")


def test_the_description_has_no_links_into_the_repository(setup):
    links = re.findall(r"\]\(([^)]+)\)", setup.metadata.long_description)
    assert all(link.startswith("https://") for link in links)
    assert "the cosine head (`docs/cosine_head.md`)" in setup.metadata.long_description.replace("\n", " ")
    assert setup.metadata.long_description_content_type == "text/markdown"


def test_the_package_can_be_found(setup):
    described = setup.metadata
    assert described.author and described.license == "Apache-2.0" and described.description
    assert {"Keras", "ArcFace", "adversarial robustness"} <= {each.strip() for each in described.keywords}
    assert "Typing :: Typed" in described.classifiers


def imported():
    """The packages that the modules of athe_tf import, inside functions too, other than Python's own."""
    found = set()
    for path in (ROOT / "athe_tf").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"athe_tf"}


def plain(requirement):
    return re.split(r"[<>=!~ \[]", requirement)[0].lower().replace("_", "-")


def test_every_package_that_is_imported_is_declared(setup):
    wanted = [*setup.install_requires, *(one for extra in setup.extras_require.values() for one in extra)]
    declared = {plain(one) for one in wanted}
    # Packages that are not installed here have the names of their modules, but for these.
    named = {"art": ["adversarial-robustness-toolbox"], "ai_edge_litert": ["ai-edge-litert"]}
    providers = named | metadata.packages_distributions()
    undeclared = {name for name in imported() if declared.isdisjoint(map(plain, providers.get(name, [name])))}
    assert not undeclared
