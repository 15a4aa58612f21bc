"""`bin/reproduce`: what it plans, what it measures, and the input it refuses."""

import dataclasses
import json
import subprocess
import sys

import pytest

from athe_tf.programs import reproduce, train
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.config.serialization import given_settings
from athe_tf.programs.reproduce import Measured, accuracy, cell, is_done, show_table
from athe_tf.programs.reproduce_plan import PRESETS, Preset, ReproduceConfig, make_plan, papers, planned_run
from athe_tf.results import Result
from athe_tf.utils.errors import InputError
from benchmarks.results_tables import RUNS, label_of
from tests.report_case import full_evaluation, small_evaluation

TABLES = list(dict.fromkeys(row["table"] for row in papers()["rows"]))


def plan_of(table, preset="mini", **settings):
    return make_plan(ReproduceConfig(table=table, preset=preset, **settings))


def mini_run(recipe, **overrides):
    return planned_run(recipe, overrides, 0, ReproduceConfig(table="2"), PRESETS["mini"])


@pytest.mark.parametrize("table", TABLES)
def test_the_full_recipe_changes_nothing_and_has_every_row(table):
    plan = plan_of(table, "paper")
    for planned in plan.rows:
        assert planned.runs[0].config.model == planned.row["network"]
        assert planned.row["framework"] == "standard" or (
            planned.runs[0].config.attack_steps == planned.row["steps"]
        )
    with_numbers = [row for row in papers()["rows"] if row["table"] == table and row["columns"]]
    assert [planned.row for planned in plan.rows if planned.row in papers()["rows"]] == with_numbers


@pytest.mark.parametrize("table", [table for table in TABLES if table != "4"])
@pytest.mark.parametrize("preset", ["mini", "small"])
def test_a_budget_has_its_network_and_no_run_twice(table, preset):
    plan = plan_of(table, preset, seeds=("0",))
    settings = [dataclasses.replace(run.config, workdir=None) for run in plan.runs]
    assert len(settings) == len({repr(one) for one in settings})
    on_cifar = [run.config for run in plan.runs if run.config.dataset == "cifar10"]
    assert {config.model for config in on_cifar} <= {PRESETS[preset].models["cifar10"]}
    assert {config.epochs for config in on_cifar} <= {PRESETS[preset].epochs["cifar10"]}


def test_a_sweep_has_a_run_for_each_value():
    plan = plan_of("llr", "paper")
    options = [run.config.framework_options for run in plan.runs]
    assert sorted(one.beta for one in options if one.name == "trades") == [1, 3, 6, 9]
    weights = {(one.gamma_weight, one.slope_weight) for one in options if one.name == "llr"}
    # 4 and 3 are the recipe's; one is changed at a time.
    assert weights >= {(4, 3), (2, 3), (8, 3), (4, 1.5), (4, 6)}
    same = [row for row, why in plan.left_out if "the same as" in why]
    assert same == ["TRADES, beta = 6", "LLR, gamma_weight = 4", "LLR, slope_weight = 3"]


def test_an_average_reaches_back_over_the_same_share_of_a_shorter_training():
    # 0.9995 for 100 epochs, of FreeAT 50, becomes that of 10.
    for run in plan_of("fastat").runs:
        assert run.config.ema == (0.9975 if run.config.framework == "free_at" else 0.995)


def test_mini_is_the_budget_of_the_study():
    config = mini_run("cifar_trades_he").config
    assert (config.model, config.epochs, config.batch_size, config.steps) == ("wrn-10-1", 10, 128, 5)
    assert config.lr_drops == (7.5, 9.0) and config.step_size == 2 / 255
    # The recipe of PAS has periods of 100, 50 and 50 epochs.
    assert mini_run("cifar_pas_linear").config.lr_resets == (5.0, 8.0)


def test_pas_with_resets_is_measured_by_its_ensemble():
    models = {planned.row["row"]: planned.evaluations[0].model for planned in plan_of("pas", "paper").rows}
    single = {row: model for row, model in models.items() if "with resets" not in row}
    ensembles = {row: model for row, model in models.items() if "with resets" in row}
    assert len(single) == 10 and len(ensembles) == 6
    assert all(model.endswith("_seed0") for model in single.values())
    assert all(model.endswith("_seed0/ensemble.keras") for model in ensembles.values())


STUDY = {
    planned.row["row"]: planned.runs
    for table in ("study", "study_one_seed")
    for planned in plan_of(table).rows
}
STORED = [json.loads(path.read_text()) for path in sorted(RUNS.glob("*/config.json"))]


@pytest.mark.parametrize(
    "stored", [one for one in STORED if label_of(one) in STUDY], ids=lambda one: one["workdir"]
)
def test_the_study_repeats_the_runs_in_results(stored):
    run = STUDY[label_of(stored)][stored["seed"]]
    planned = given_settings(run.config)
    shared = [name for name in stored if name in planned and name not in ("workdir", "backup_minutes")]
    as_json = {name: json.loads(json.dumps(planned[name])) for name in shared}
    assert len(shared) > 30
    assert as_json == {name: stored[name] for name in shared}


def test_a_plan_needs_no_tensorflow():
    code = (
        "import sys; from athe_tf.programs.reproduce import PROGRAM; sys.argv[1:] = ['--table=3', '--plan'];"
        "assert PROGRAM.exit_code() == 0; assert 'tensorflow' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "To train: 18 runs. Add --plan to a command of bin/train to measure" in done.stdout
    recipe = "bin/train --flagfile=configs/cifar_fast_at.flags"
    assert f"  {recipe} " in done.stdout and done.stdout.count("    to train\n") == 18
    folder = "runs/reproduce/mini/cifar_fast_at_seed0"
    flags = f"--model={folder} --protocol=table3 --max_examples=500 --output={folder}/evaluation_table3"
    assert f"  bin/evaluate {flags}\n    to run\n" in done.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--table=22"], "Unknown table '22'. Did you mean '2'"),
        (["--table="], "Specify which table to reproduce"),
        (["--table=2", "--preset=tiny"], "Unknown --preset 'tiny'. Did you mean 'mini'"),
        (["--table=2", "--seeds=0,one"], "--seeds are whole numbers"),
        (["--table=2", "--seeds=1,01"], "Name each seed once"),
        (["--table=4"], "imagenet2012 is part of --preset=paper only"),
        (["--table=2", "--max_examples=0"], "--max_examples must be"),
    ],
)
def test_input_that_cannot_work_is_refused(flags, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bin/reproduce", *flags])
    assert reproduce.PROGRAM.exit_code() == 2
    assert message in capsys.readouterr().err


def test_a_damaged_evaluation_is_named(tmp_path):
    (tmp_path / "evaluation.json").write_text("{")
    with pytest.raises(InputError, match="evaluation.json"):
        is_done(EvaluateConfig(model="runs/a", protocol="table3", output=str(tmp_path)))


def evaluation():
    found = full_evaluation() | {"model": "runs/a", "clean_accuracy": 0.9, "clean_interval": [0.8, 0.95]}
    found |= {"worst_case_accuracy": 0.4, "worst_case_interval": [0.3, 0.5]}
    pgd = {**found["attacks"][1], "accuracy": 0.5, "interval": [0.4, 0.6]}
    found["attacks"] = [pgd, {"name": "adaptive-pgd-20", "not_run": "no head"}]
    fog = {"fog": [0.9, 0.8, 0.7, 0.6, 0.5]}
    found["corruptions"] = {"mca": 0.7, "severities": [1, 2, 3, 4, 5], "accuracy": fog}
    found["transfer"] = {
        "sources": ["runs/a, pgd-10", "runs/b, pgd-10"],
        "targets": ["runs/a", "runs/b"],
        "accuracy": [[0.1, 0.2], [0.3, 0.4]],
    }
    return Result.from_dict(found)


@pytest.mark.parametrize(
    ("measure", "metric", "value", "interval"),
    [
        ("clean", "accuracy", 90, (80, 95)),
        ("clean", "error", 10, (5, 20)),
        ("pgd-20", "error", 50, (40, 60)),
        ("worst_case", "accuracy", 40, (30, 50)),
        ("mCA", "accuracy", 70, None),
        ("corruption:fog", "accuracy", 70, None),
        ("transfer:pgd-10", "accuracy", 30, None),  # made on runs/b, tested on runs/a
    ],
)
def test_a_measure_is_read_from_an_evaluation(measure, metric, value, interval):
    found = accuracy(evaluation(), measure, metric)
    assert found.value == pytest.approx(value)
    assert found.interval == (None if interval is None else pytest.approx(interval))


@pytest.mark.parametrize("measure", ["mim-20", "adaptive-pgd-20"])
def test_a_missing_measure_is_an_error(measure):
    with pytest.raises(InputError, match=f"'runs/a' has no '{measure}'"):
        accuracy(evaluation(), measure)


def test_a_cell_has_the_interval_over_seeds_or_over_images():
    assert cell([Measured(50.0, (45.0, 55.0))]) == "50.00 (45.00 to 55.00)"
    assert cell([Measured(12.5)]) == "12.50"
    # Mean 2, deviation 1, and 4.3027 is the 97.5% quantile of t with 2 degrees of freedom.
    half = 4.302652729911275 / 3**0.5
    assert cell([Measured(1.0), Measured(2.0), Measured(3.0)]) == f"2.00 ({2 - half:.2f} to {2 + half:.2f})"


def test_another_data_dir_is_the_same_evaluation(tmp_path):
    one = EvaluateConfig(model="runs/a", protocol="table3", max_examples=5, output=str(tmp_path))
    assert not is_done(one)
    command = reproduce.evaluate.repeat_command(dataclasses.replace(one, data_dir="/data"))
    (tmp_path / "evaluation.json").write_text(json.dumps(small_evaluation(command=command)))
    assert is_done(one)
    assert not is_done(dataclasses.replace(one, max_examples=6))


@pytest.fixture
def digits_table(monkeypatch):
    """A table of one row that takes seconds: FastAT on digits, with transfer from its HE twin."""
    row = next(row for row in papers()["rows"] if row["table"] == "transfer")
    row = {**row, "table": "small", "row": "B -> A", "dataset": "digits", "config": "digits_fast_at"}
    row["source_config"] = "digits_fast_at_he"
    columns = [{"name": "Time", "measure": "minutes", "published": 1.0}]
    columns += [{"name": "Clean", "measure": "clean", "published": 60.0}]
    row["columns"] = [*row["columns"], *columns]
    monkeypatch.setattr(
        "athe_tf.programs.reproduce_plan.papers", lambda: {"papers": papers()["papers"], "rows": [row]}
    )
    preset = Preset("one epoch", max_examples=10, epochs={"digits": 1}, models={"digits": "small_cnn"})
    monkeypatch.setitem(PRESETS, "mini", preset)


def test_a_table_is_filled_and_not_filled_twice(digits_table, tmp_path, monkeypatch, capsys):
    config = ReproduceConfig(table="small", workdir=str(tmp_path))
    assert reproduce.action(config, {"plan": False}) == 0
    first = show_table(make_plan(config))
    assert first in capsys.readouterr().out
    plan = make_plan(config)
    stored = json.loads((tmp_path / "digits_fast_at_seed0/evaluation_transfer/evaluation.json").read_text())
    other = plan.rows[0].sources[0].folder
    expected = stored["transfer"]["accuracy"][stored["transfer"]["sources"].index(f"{other}, pgd-10")][0]
    lines = [line.split() for line in first.splitlines() if line.startswith("B -> A")]
    assert [line[4] for line in lines if line[3] == "PGD-10"] == [f"{100 * expected:.2f}"]
    assert [line[4] for line in lines if line[3] == "Clean"] == [f"{100 * stored['clean_accuracy']:.2f}"]

    def fail(*_):
        raise AssertionError("Everything is there.")

    monkeypatch.setattr(train, "action", fail)
    monkeypatch.setattr(reproduce.evaluate, "action", fail)
    assert reproduce.action(config, {"plan": False}) == 0
    assert first in capsys.readouterr().out
