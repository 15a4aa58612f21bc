"""configs/papers.json: every row of the papers' tables has a config and a protocol that measures it.

The tests start from the table, so a row without a config, or a config with another setting, fails.
"""

import json
import re

import pytest

from athe_tf.data.corruptions.names import STANDARD
from athe_tf.evaluation.attack_run import make_plan
from athe_tf.evaluation.protocols import get_protocol
from athe_tf.programs.config.serialization import flag_text
from athe_tf.programs.train import PROGRAM
from athe_tf.utils.number_format import parse_number
from tests.programs.test_configs import FOLDER

TABLE = json.loads((FOLDER / "papers.json").read_text())
ROWS = TABLE["rows"]
FIELDS = {
    "paper", "table", "row", "framework", "head", "network", "dataset", "norm", "epsilon", "steps", "scale",
    "margin", "config", "overrides", "protocol", "metric", "columns",
}  # fmt: skip
# The rows of each table, counted in the papers; the study is ours.
COUNTS = {
    "2": 6,
    "3": 6,
    "4": 8,
    "5": 8,
    "6": 2,
    "7": 1,
    "8": 6,
    "9": 10,
    "10": 9,
    "adaptive": 1,
    "ablation": 3,
}
COUNTS |= {
    "fastat": 12,
    "transfer": 2,
    "time": 6,
    "pas": 15 + 1 + 3,
    "llr": 4,
    "study": 9,
    "study_one_seed": 7 + 15,
}
# What a training run or an evaluation measures without an attack.
OF_THE_RUN = {"clean", "minutes", "minutes_per_epoch"}


def name_of(row):
    return f"{row['table']}: {row['row']}"


def config_of(row):
    overrides = [f"--{name}={flag_text(value)}" for name, value in row["overrides"].items()]
    return PROGRAM.read(["bin/train", f"--flagfile={FOLDER / row['config']}.flags", *overrides])[0]


def test_every_table_has_all_its_rows():
    assert {table: sum(row["table"] == table for row in ROWS) for table in COUNTS} == COUNTS
    assert len(ROWS) == sum(COUNTS.values()) == len({(row["paper"], name_of(row)) for row in ROWS})
    assert {row["paper"] for row in ROWS} == set(TABLE["papers"])


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_has_a_config_with_its_settings(row):
    assert set(row) >= FIELDS
    config = config_of(row)
    found = (config.framework, config.head, config.model, config.dataset, config.norm, config.training_margin)
    assert found == tuple(row[n] for n in ("framework", "head", "network", "dataset", "norm", "margin"))
    assert config.epsilon == parse_number(row["epsilon"])
    assert config.framework == "standard" or config.attack_steps == row["steps"]
    assert (row["head"] == "linear") == (row["scale"] is None)
    assert row["scale"] is None or config.scale == row["scale"]
    assert "epochs" not in row or config.epochs == row["epochs"]
    assert "source_config" not in row or (FOLDER / f"{row['source_config']}.flags").exists()


def measures_of(name):
    """What a protocol measures, by the names in its result."""
    protocol = get_protocol(name)
    plan = make_plan(protocol.attacks, protocol.epsilon or 0.1, "linf", published=protocol.epsilon)
    found = {"clean", "worst_case", *(planned.label for planned in plan)}
    found |= {f"transfer:{spec.attack}" for spec in protocol.transfer}
    return found | ({"mCA", *(f"corruption:{c}" for c in STANDARD)} if protocol.corruptions else set())


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_has_a_protocol_that_measures_its_columns(row):
    found = OF_THE_RUN if row["protocol"] is None else OF_THE_RUN | measures_of(row["protocol"])
    for column in row["columns"]:
        assert column["measure"] in found and column.get("own_scale", "clean") in found, column
        ours = row["paper"] == "study" or (row["paper"], row["head"]) == ("fastat", "he")
        assert ours or 0 < column["published"] < 100
    assert row["columns"] or "note" in row
    assert row["metric"] in ("accuracy", "error")


@pytest.mark.parametrize("name", sorted({row["config"] for row in ROWS}))
def test_a_header_expects_what_the_table_has(name):
    """Numbers after "Table N, in %: ... =" in a header, up to the sentence's end."""
    header = " ".join(re.findall(r"^# *(.*)$", (FOLDER / f"{name}.flags").read_text(), re.M))
    columns = [column for row in ROWS if row["config"] == name for column in row["columns"]]
    published = {column["published"] for column in columns if "published" in column}
    lists = re.findall(r"= ((?:\d+\.\d+(?:, )?)+)", header)
    numbers = {float(number) for each in lists for number in each.rstrip(", ").split(", ")}
    assert numbers <= published
    assert numbers or not re.search(r"Table \d+, in %", header)
