"""What the package says of itself where the repository is not at hand."""

import pathlib
import re

import pytest
from setuptools._distutils.core import run_setup

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def described():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return run_setup("setup.py", stop_after="init").metadata


def test_the_description_has_no_links_into_the_repository(described):
    links = re.findall(r"\]\(([^)]+)\)", described.long_description)
    assert all(link.startswith("https://") for link in links)
    assert "the cosine head (`docs/cosine_head.md`)" in described.long_description.replace("\n", " ")
    assert described.long_description_content_type == "text/markdown"


def test_the_package_can_be_found(described):
    assert described.author and described.license == "Apache-2.0" and described.description
    assert {"Keras", "ArcFace", "adversarial robustness"} <= {each.strip() for each in described.keywords}
    assert "Typing :: Typed" in described.classifiers
