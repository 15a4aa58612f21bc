"""Numbers in README.md and docs/ come from files in results/, or say why they need none."""

import json
import math
import re

import pytest

from benchmarks.record import PRINTED, record, without_paths
from benchmarks.results_tables import ROOT
from tests.doc_examples import TUTORIALS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
ANALYSES = ROOT / "results" / "analysis"
SOURCE = re.compile(r"<!-- from: (.*?) -->\n\n?((?:.+\n)+)")
TABLE = re.compile(r"((?:^\|.*\n)+)", re.M)
# Tables that benchmarks.results_tables and benchmarks.attackbench write; tests of their own compare them.
WRITTEN = re.compile(r"<!-- (table: \w+|attackbench) -->.*?<!-- (end: \w+|end of attackbench) -->", re.S)
# What stands before any other table of numbers: files in results/printed, or why nothing was measured.
KNOWN = re.compile(r"<!-- (from|not measured): .+ -->$")
NUMBER = re.compile(r"[+-]?\.?\d")


def blocks():
    """A table or paragraph that names its files, and the files."""
    for page in PAGES:
        for files, block in SOURCE.findall(page.read_text()):
            yield pytest.param(files.split(), block.splitlines(), id=f"{page.name}: {files}")


def tables():
    """Every table whose cells are numbers, mostly, and the line before it."""
    for page in PAGES:
        text = WRITTEN.sub("", page.read_text())
        for found in TABLE.finditer(text):
            rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()[2:]]
            cells = [cell for row in rows for cell in row[1:] if cell]
            if cells and sum(bool(NUMBER.match(cell)) for cell in cells) > 0.4 * len(cells):
                yield page.name, text[: found.start()].rstrip().rpartition("\n")[2]


def printed(patterns):
    """What commands printed, and the numbers that bin/analyze wrote."""
    found = {path for pattern in patterns for path in PRINTED.glob(pattern)}
    return sorted(found | {path for pattern in patterns for path in ANALYSES.glob(pattern)})


def values_of(data):
    """All numbers in a JSON document."""
    if isinstance(data, dict):
        data = [*data.values()]
    if isinstance(data, list):
        return [value for part in data for value in values_of(part)]
    return [data] if isinstance(data, int | float) else []


def is_in(number, path):
    """Whether a text has a number, or a JSON document one that is rounded to it, or to it in per cent."""
    if path.suffix != ".json":
        return number in numbers_in(path.read_text())
    half = 0.5001 * 10.0 ** -len(number.partition(".")[2])
    values = [abs(value) for value in values_of(json.loads(path.read_text()))]
    return any(abs(share - float(number)) <= half for value in values for share in (value, 100 * value))


def numbers_in(text):
    """The numbers of a text; .5 is 0.5."""
    return {number.lstrip("0") or "0" for number in re.findall(r"\d*\.?\d+(?:e[+-]\d+)?", text)}


def test_a_table_of_numbers_names_its_source():
    assert not [page for page, before in tables() if not KNOWN.match(before)]


@pytest.mark.parametrize(("files", "block"), blocks())
def test_a_row_has_the_numbers_that_a_command_printed(files, block):
    """The numbers of a row are in one file; those of a paragraph that have a fraction are in any of them."""
    sources = printed(files)
    assert sources
    if block[0].startswith("|"):
        assert len(block) > 2
        for row in block[2:]:
            cells = numbers_in(row.split("|", 2)[2])
            assert any(all(is_in(cell, path) for cell in cells) for path in sources), row
    else:
        found = {number for number in numbers_in(" ".join(block)) if "." in number}
        assert found
        assert not [number for number in found if not any(is_in(number, path) for path in sources)]


def test_what_was_printed_has_its_command_and_is_on_a_page():
    shown = {path for block in blocks() for path in printed(block.values[0])}
    assert shown == {path for folder in (PRINTED, ANALYSES) for path in folder.rglob("*") if path.is_file()}
    for path in shown - {*ANALYSES.iterdir()}:
        command = re.match(r"\$ (.+)\n\n", path.read_text())
        assert command, path
        module = re.match(r"python -m benchmarks\.(\w+)", command[1])
        assert not module or (ROOT / "benchmarks" / f"{module[1]}.py").is_file(), path
        assert without_paths(path.read_text()) == path.read_text(), path


def test_a_record_has_the_command_and_no_path_of_a_machine(tmp_path):
    assert record("some/name", ["python", "-c", "print('1.5 in /data/images')"], tmp_path) == 0
    lines = (tmp_path / "some" / "name.txt").read_text().splitlines()
    assert lines[0].startswith("$ python -c ") and lines[2:] == ["1.5 in DIR"]


def test_a_command_that_fails_leaves_no_record(tmp_path):
    assert record("name", ["python", "-c", "print(1); raise SystemExit(3)"], tmp_path) == 3
    assert not list(tmp_path.iterdir())


ACCURACIES = r"([\d.]+) ?% clean, ([\d.]+) ?% robust"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs").glob("digits_*.flags")), ids=lambda path: path.stem
)
def test_a_config_of_digits_expects_what_its_run_reached(path):
    records = "".join((PRINTED / name).read_text() for name in ("digits_study.txt", "digits_configs.txt"))
    reached = re.findall(f"^{path.stem.removeprefix('digits_')}, seed 0: {ACCURACIES}$", records, re.M)
    assert re.findall(rf"^# Expected: {ACCURACIES} \(best epoch, seed 0, ", path.read_text(), re.M) == reached
    assert len(reached) == 1


def test_swift_is_as_near_to_autoattack_as_the_page_says():
    page = (ROOT / "docs" / "fast_evaluation.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (\S+)% \| \S+% \| (\S+)% \| .* x \|", page, re.M)
    above = [float(swift) - float(autoattack) for model, autoattack, swift in rows if "*" not in model]
    assert len(above) == 13
    mean = sum(above) / len(above)
    assert (
        f"on average {-mean:.2f} points below AutoAttack, and on none more than {max(above):.1f} above"
        in page
    )


def test_the_smallest_losses_of_a_cosine_head_follow_from_the_formula():
    page = (ROOT / "docs" / "cosine_head.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$", page, re.M)
    assert [row[0] for row in rows] == ["10", "100", "1000"]
    for classes, *cells in rows:
        count = int(classes)
        for scale, cell in zip((5, 10, 15, 30), cells, strict=False):
            smallest = math.log1p((count - 1) * math.exp(-scale * count / (count - 1)))
            assert float(cell) == float(f"{smallest:.2g}"), (classes, scale)
        assert float(cells[4]) == round(math.sqrt(2) * math.log(count - 1), 2)
