"""docs/faq.md explains every warning and every sanity check, at the anchor that messages name."""

import re

import pytest

from athe_tf.evaluation.sanity import CHECKS
from athe_tf.results.notices import UNNAMED, WARNINGS, Notice, explained, warning_texts
from tests.doc_examples import ROOT
from tests.test_docs import anchors_of

FAQ = ROOT / "docs" / "faq.md"


@pytest.mark.parametrize("name", [*WARNINGS, *CHECKS])
def test_a_message_leads_to_its_section(name):
    page, _, anchor = re.search(r"\((.*)\)$", explained("A text.", name))[1].partition("#")
    assert ROOT / page == FAQ and anchor in anchors_of(FAQ)


def test_no_section_is_about_a_warning_that_is_gone():
    sections = FAQ.read_text().split("## Warnings")[1]
    assert set(re.findall(r"^### (.*)$", sections, re.M)) == {*WARNINGS, *CHECKS}


def test_a_warning_without_a_name_stays_as_it_is():
    assert warning_texts(["Mine.", Notice("Old.", id=UNNAMED)]) == ["Mine.", "Old."]
