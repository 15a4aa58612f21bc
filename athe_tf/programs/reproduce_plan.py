"""The tables of `configs/papers.json`, and the runs and evaluations that fill them. No TensorFlow."""

import dataclasses
import functools
import json
import pathlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

from athe_tf.programs.config import EvaluateConfig, TrainConfig
from athe_tf.programs.config.fields import check_folder, flag
from athe_tf.programs.config.serialization import as_flags, differences, flag_text
from athe_tf.programs.recipes import recipe_folder
from athe_tf.programs.train import PROGRAM
from athe_tf.programs.workdir import Workdir, plain
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.options import check_options, option, with_help
from athe_tf.utils.registry import unknown_name

#: Settings that count epochs; they keep their place in a shorter run.
_IN_EPOCHS = (
    "epsilon_warmup", "epsilon_delay", "awp_start", "swa_start", "ema_start", "lr_warmup", "step_size_warmup",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Preset:
    """A budget.

    Attributes:
        summary: One line for the reader of a table.
        seeds: Seeds of the runs.
        max_examples: Number of test images; `None` for all.
        epochs: Epochs by data set; `None` keeps the recipe's. A data set that is missing is not part
            of the budget.
        models: Networks by data set.
        steps: Attack steps by framework, on CIFAR-10.
        batch_size: Images per step, on CIFAR-10.
    """

    summary: str
    seeds: tuple[int, ...] = (0,)
    max_examples: int | None = None
    epochs: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    batch_size: int | None = None

    def changes(self, recipe: TrainConfig) -> dict:
        """The settings in which a run within this budget differs from the recipe."""
        dataset = recipe.dataset
        epochs = self.epochs[dataset] or recipe.epochs
        wanted = {"model": self.models.get(dataset, recipe.model), "epochs": epochs}
        if dataset == "cifar10":
            wanted |= {"batch_size": self.batch_size or recipe.batch_size}
            wanted |= {"steps": self.steps.get(recipe.framework, recipe.steps)}
        wanted |= shortened(recipe, epochs)
        return {name: value for name, value in wanted.items() if value != getattr(recipe, name)}


def shortened(recipe: TrainConfig, epochs: int) -> dict:
    """Settings that count epochs or updates, in proportion to another number of epochs."""
    ratio = epochs / recipe.epochs
    found: dict = {name: getattr(recipe, name) for name in _IN_EPOCHS if getattr(recipe, name)}
    found = {name: type(value)(max(1, round(value * ratio))) for name, value in found.items()}
    if recipe.ema:  # it reaches back over the same share of the training
        found["ema"] = round(max(0.5, 1 - (1 - recipe.ema) / ratio), 6)
    if recipe.lr_schedule == "piecewise":
        found["lr_drops"] = tuple(drop * ratio for drop in recipe.lr_drops)
    # Periods are whole epochs.
    found["lr_resets"] = tuple(float(round(reset * ratio)) for reset in recipe.lr_resets)
    return found


_ALL_DATA = ("cifar10", "mnist", "imagenet2012")
#: By the value of `--preset`.
PRESETS: dict[str, Preset] = {
    "mini": Preset(
        "10 epochs; on CIFAR-10 WRN-10-1, batch size 128, and 5 attack steps in PGD-AT, TRADES and ALP",
        seeds=(0, 1, 2),
        max_examples=500,
        epochs={"cifar10": 10, "mnist": 10},
        models={"cifar10": "wrn-10-1"},
        steps={"pgd_at": 5, "trades": 5, "alp": 5},
        batch_size=128,
    ),
    "small": Preset(
        "15 epochs, on MNIST 20; on CIFAR-10 a pre-activation ResNet-18",
        max_examples=1000,
        epochs={"cifar10": 15, "mnist": 20},
        models={"cifar10": "preact_resnet18_fast"},
    ),
    "paper": Preset("the full recipe", epochs=dict.fromkeys(_ALL_DATA)),
}


@dataclasses.dataclass(frozen=True)
class ReproduceConfig:
    """A table of a paper, to be trained and measured."""

    table: str = option(
        "", "Table: 2 to 10, adaptive, ablation, transfer, time, pas, llr, fastat, study or study_one_seed."
    )
    preset: str = option(
        "mini",
        "Budget: mini is for two CPU cores, small for a few hours on one GPU, paper is the full recipe.",
        choices=tuple(PRESETS),
    )
    seeds: tuple[str, ...] = option((), "Seeds of the runs, such as 0,1,2. [0,1,2 for mini, else 0]")
    max_examples: int | None = option(
        None, "Evaluate on the first N test images. [500 for mini, 1000 for small, else all]", gt=0
    )
    data_dir: str | None = with_help(TrainConfig, "data_dir")
    workdir: str | None = option(
        None,
        "Folder of the runs, one subfolder each. The same command resumes them. [runs/reproduce/PRESET]",
        runtime=True,
    )

    def __post_init__(self):
        check(bool(self.table), "Specify which table to reproduce, such as --table=2.")
        check_folder(self, "workdir")
        check_options(self, flag)
        wrong = [seed for seed in self.seeds if not re.fullmatch(r"\d{1,9}", seed)]
        check(
            not wrong,
            "--seeds are whole numbers that are not negative, separated by commas, such as 0,1,2. "
            f"Received: --seeds={','.join(self.seeds)}.",
        )
        check(
            len({int(seed) for seed in self.seeds}) == len(self.seeds),
            f"Name each seed once. Received: --seeds={','.join(self.seeds)}.",
        )


@functools.cache
def papers() -> dict[str, Any]:
    """The content of `configs/papers.json`."""
    return json.loads((recipe_folder() / "papers.json").read_text())


def rows_of(table: str) -> list[dict[str, Any]]:
    """The rows of a table, with its sweeps, or `InputError`."""
    found = [row for row in papers()["rows"] if row["table"] == table]
    if not found:
        raise unknown_name("table", table, {row["table"] for row in papers()["rows"]})
    return [each for row in found for each in (row, *swept(row))]


def swept(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each value of a sweep, with one setting changed at a time."""
    return [
        {
            **{key: value for key, value in row.items() if key != "note"},
            "row": f"{row['row']}, {name} = {value:g}",
            "overrides": {**row["overrides"], name: value},
        }
        for name, values in row.get("sweep", {}).items()
        for value in values
    ]


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A training run: its folder, its flags and its settings."""

    recipe: str
    flags: list[str]
    config: TrainConfig

    @property
    def folder(self) -> str:
        return str(self.config.workdir)

    @property
    def model(self) -> str:
        """What is evaluated: the ensemble of its periods, as in the tables of PAS, else its best epoch."""
        return str(Workdir(self.folder).ensemble) if self.config.ensemble else self.folder

    @property
    def command(self) -> str:
        """The command that trains it alone."""
        return shlex.join(["bin/train", f"--flagfile=configs/{self.recipe}.flags", *self.flags])


@dataclasses.dataclass(frozen=True)
class PlannedRow:
    """A row of a table with its runs, one per seed, and their evaluations; none if nothing is attacked."""

    row: dict[str, Any]
    runs: tuple[PlannedRun, ...]
    sources: tuple[PlannedRun, ...]
    evaluations: tuple[EvaluateConfig, ...]


@dataclasses.dataclass(frozen=True)
class TablePlan:
    """What a table needs within a budget."""

    table: str
    preset: Preset
    seeds: tuple[int, ...]
    max_examples: int | None
    rows: tuple[PlannedRow, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def seeds_text(self) -> str:
        """The seeds in words."""
        return f"{'seed' if len(self.seeds) == 1 else 'seeds'} {', '.join(map(str, self.seeds))}"

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs, each once."""
        every = (run for row in self.rows for run in (*row.runs, *row.sources))
        return list({run.folder: run for run in every}.values())

    @property
    def evaluations(self) -> list[EvaluateConfig]:
        """All evaluations, each once."""
        every = (one for row in self.rows for one in row.evaluations)
        return list({str(one.output): one for one in every}.values())


def make_plan(config: ReproduceConfig) -> TablePlan:
    """The runs and evaluations of a table."""
    preset = PRESETS[config.preset]
    seeds = tuple(int(seed) for seed in config.seeds) or preset.seeds
    limit = config.max_examples or preset.max_examples
    kept: list[PlannedRow] = []
    left_out: list[tuple[str, str]] = []
    for row in rows_of(config.table):
        if not row["columns"]:
            left_out.append((row["row"], row["note"]))
        elif row["dataset"] not in preset.epochs:
            left_out.append((row["row"], f"{row['dataset']} is part of --preset=paper only."))
        else:
            planned = _planned_row(row, config, preset, seeds, limit)
            # A budget, which has one network, may leave no difference between two rows.
            first = planned.runs[0].config
            same = [other for other in kept if not differences(first, other.runs[0].config)]
            if same:
                left_out.append((row["row"], f"In this budget, it is the same as '{same[0].row['row']}'."))
            else:
                kept.append(planned)
    if not kept:
        raise InputError(
            f"--preset={config.preset} has no row of table {config.table}: {left_out[0][1]} "
            "Use --preset=paper."
        )
    return TablePlan(config.table, preset, seeds, limit, tuple(kept), tuple(left_out))


def _planned_row(row, config: ReproduceConfig, preset: Preset, seeds, limit) -> PlannedRow:
    runs = tuple(planned_run(row["config"], row["overrides"], seed, config, preset) for seed in seeds)
    source = row.get("source_config")
    sources = tuple(planned_run(source, {}, seed, config, preset) for seed in seeds) if source else ()
    evaluations = tuple(
        EvaluateConfig(
            model=run.model,
            protocol=row["protocol"],
            max_examples=limit,
            data_dir=config.data_dir,
            substitutes=(sources[number].folder,) if sources else (),
            output=f"{run.folder}/evaluation_{row['protocol']}",
        )
        for number, run in enumerate(runs)
        if row["protocol"] is not None
    )
    return PlannedRow(row, runs, sources, evaluations)


def planned_run(
    recipe: str, overrides: dict[str, Any], seed: int, config: ReproduceConfig, preset: Preset
) -> PlannedRun:
    """A run of a recipe of `configs/`, with the overrides of its row, within a budget."""
    changed = overrides | preset.changes(_read(recipe, as_flags(overrides)))
    varied = "".join(f"_{name}{plain(flag_text(value))}" for name, value in overrides.items())
    folder = pathlib.Path(config.workdir or f"runs/reproduce/{config.preset}", f"{recipe}{varied}_seed{seed}")
    changed |= {"seed": seed, "workdir": str(folder)}
    if config.data_dir is not None:
        changed["data_dir"] = config.data_dir
    flags = as_flags(changed)
    return PlannedRun(recipe, flags, _read(recipe, flags))


def _read(recipe: str, flags: list[str]) -> TrainConfig:
    return PROGRAM.read(["bin/train", f"--flagfile={recipe_folder() / recipe}.flags", *flags])[0]
