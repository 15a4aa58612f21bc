"""The folder of a training run: its files, which run it belongs to, and what other programs take from it.

All programs that look at images of a run load them here, so they see what the model was trained on.
"""

import contextlib
import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from athe_tf import data, zoo
from athe_tf.data.names import in_memory_only
from athe_tf.data.sources import is_path, source_fingerprint
from athe_tf.jobs.locks import LOCK, lock_name, locked, locked_folder
from athe_tf.jobs.ownership import is_ours, remove_files
from athe_tf.models.names import HEAD_MARGINS
from athe_tf.programs.command_line import warn_user
from athe_tf.programs.config import TrainConfig, serialization
from athe_tf.programs.config.fields import picked
from athe_tf.programs.config.rules import depends_on_epochs
from athe_tf.saving.names import PREFIX, RUN_CONFIG, RUN_MODELS, find_model, in_zoo, is_imported
from athe_tf.utils.errors import InputError, check, unreadable
from athe_tf.utils.files import TEMPORARY, write_text

#: Settings that other programs take from the training run of a model, and their values without one.
FROM_RUN: dict[str, Any] = {"norm": "linf", "epsilon": 8 / 255}
FROM_RUN |= dict.fromkeys(("dataset", "data_dir", "image_size", "resize_size", "margin"))
#: Keys that tell the config of a run.
RUN_KEYS = {"dataset", "framework", "head"}
#: The file with the names of the images of a run.
FILES = "files.json"
Config = TypeVar("Config")


class Workdir:
    """Paths of a run.

    | file | content |
    |---|---|
    | `config.json`, `flags.txt` | the settings; the latter repeats the run with `--flagfile=` |
    | `metrics.csv` | one row per epoch |
    | `best.keras` | the classifier of the best epoch on held-out images; its accuracy in `best.json` |
    | `final.keras`, `saved_model/` | the classifier at the end, and its export |
    | `periods/1.keras` ..., `ensemble.keras` | the classifier at the end of each period, and their ensemble |
    | `backup/state.npz` | everything that is needed to resume, until the run is finished |
    | `backup/previous_epoch.npz` | the weights that the guard against overfitting restores |
    | `files.json` | the names of the files of `folder:PATH`, until the run is finished |
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.config = self.folder / RUN_CONFIG
        self.flags = self.folder / "flags.txt"
        self.metrics = self.folder / "metrics.csv"
        self.best, self.final = (self.folder / name for name in RUN_MODELS)
        self.saved_model = self.folder / "saved_model"
        self.periods = self.folder / "periods"
        self.ensemble = self.folder / "ensemble.keras"
        self.backup = self.folder / "backup" / "state.npz"
        self.previous_epoch = self.folder / "backup" / "previous_epoch.npz"
        self.files = self.folder / FILES

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return self.final.exists() and not self.backup.exists()

    def read_config(self, framework: str | None = None) -> TrainConfig:
        """The settings of the run.

        Args:
            framework: The value of `--framework`. A module is imported only if the user named it, never
                because the file does.
        """
        try:
            return serialization.from_json(TrainConfig, self.config.read_text(), framework)
        except OSError as error:
            raise unreadable(self.config, error) from error
        except ValueError as error:
            raise InputError(f"'{self.config}' is not the config of a run: {error}") from error

    def recorded_settings(self) -> tuple[dict, str | None]:
        """What `config.json` says about data and threat model, for evaluation and export.

        Reads files of any version, and needs none of the files that the settings name.

        Returns:
            The settings that are understood, empty if the file is not of a training run; and a remark for the
            user if the file is of another version.
        """
        try:
            found = json.loads(self.config.read_text())
        except (OSError, ValueError, RecursionError):
            return {}, None
        if not isinstance(found, dict) or not found.keys() >= RUN_KEYS:
            return {}, None
        kinds = {name: serialization.field_type(TrainConfig, name) for name in FROM_RUN}
        settings = {
            name: found[name]
            for name, kind in kinds.items()
            if isinstance(found.get(name), (int, float) if kind is float else kind)
        }
        if isinstance(found.get("data_fingerprint"), str):
            settings["data_fingerprint"] = found["data_fingerprint"]
        settings["framework"] = found["framework"]
        settings.setdefault("margin", HEAD_MARGINS.get(str(found.get("head")), 0.0))
        version = found.get("format", 1)
        ours = serialization.FORMAT
        remark = f"'{self.config}' has format {version}, not {ours}: only known settings are used."
        return settings, None if version == ours else remark

    def check_free(self, config: TrainConfig) -> None:
        """Raises `InputError` if the folder belongs to another run or contains other files."""
        if not self.folder.exists():
            return
        check(self.folder.is_dir(), f"--workdir must be a folder. Received a file: '{self.folder}'.")
        if not self.config.exists():
            check(
                all(path.name.startswith((TEMPORARY, LOCK, FILES)) for path in self.folder.iterdir()),
                f"The folder '{self.folder}' contains files that are not of a training run. Use another "
                "--workdir.",
            )
            return
        there = self.read_config(config.framework)
        if config.epochs > there.epochs:
            there = self._lengthened(there, config.epochs)
        changed = serialization.differences(there, config)
        check(
            not changed,
            f"The folder '{self.folder}' contains another run. Different settings: {', '.join(changed)}. "
            "Use another --workdir.",
        )

    def _lengthened(self, there: TrainConfig, epochs: int) -> TrainConfig:
        """The settings of the run with more epochs; raises `InputError` if that changes those so far."""
        reason = depends_on_epochs(there)
        if self.finished:
            reason = "it is finished, and the state of its optimizer was removed"
        check(
            reason is None,
            f"The run in '{self.folder}' has {there.epochs} epochs and cannot be lengthened: {reason}. "
            f"Received: --epochs={epochs}. Start a run in another --workdir, with "
            f"--initial_model={self.folder} to begin with its weights.",
        )
        return dataclasses.replace(there, epochs=epochs)

    def held(self) -> contextlib.AbstractContextManager:
        """A context in which no other process trains here; removes what a killed one left."""
        return locked_folder(self.folder, self.backup.parent.name, self.periods.name)

    def remove_backup(self) -> None:
        """Removes what a finished run does not need any more, and nothing else that lies beside it."""
        with contextlib.suppress(OSError):
            remove_files(self.folder, *([self.files.name] if is_ours(self.files) else []))
            ours = [path.name for path in (self.previous_epoch, self.backup) if is_ours(path)]
            remove_files(self.backup.parent, *ours)

    def remove_leftovers(self) -> None:
        """Removes what a finished run could not remove; a folder that nobody may write to stays unchanged."""
        if not self.backup.parent.exists() and not any(self.folder.glob(f"{LOCK}*")):
            return
        with contextlib.suppress(OSError, InputError), self.held():
            self.remove_backup()
            for path in self.folder.glob(lock_name("*")):
                with locked(self.folder, path.name):
                    pass  # who holds a lock removes its file at the end

    def claim(self, config: TrainConfig, **records) -> None:
        """Creates the folder and writes the settings to it, with further records of `config.json`."""
        self.check_free(config)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.config, serialization.to_json(config, **records))
        write_text(self.flags, flagfile(config))


def flagfile(config) -> str:
    """The settings as a file for `--flagfile=`."""
    settings = serialization.given_settings(config)
    settings.pop("workdir", None)
    return "\n".join([*serialization.as_flags(settings), ""])


def default_workdir(config: TrainConfig) -> str:
    """A folder named after data set, model, framework, head and seed."""
    parts = [config.dataset, config.model, config.framework, config.head, f"seed{config.seed}"]
    return "runs/" + "_".join(plain(part).strip("-") for part in parts)


def plain(text: str) -> str:
    """A text as a part of the name of a folder."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text)


def find_initial_model(path: str) -> pathlib.Path:
    """The `.keras` file that `--initial_model=` means: for a workdir, its best model."""
    found = find_model(path) if path else pathlib.Path()
    check(
        found.suffix == ".keras",
        "Training can start from a .keras file or from a run. "
        f"Received: '{path}'. Give the folder of the run, or its best.keras.",
    )
    return found


def run_of(path) -> Workdir | None:
    """The training run that a model belongs to, or `None`."""
    path = pathlib.Path(path)
    for folder in (path, path.parent):
        if folder.is_dir() and (folder / RUN_CONFIG).exists():
            return Workdir(folder)
    return None


def training_run_of(model: str) -> Workdir | None:
    """The training run that a model belongs to, if any; raises `InputError` if there is no model."""
    if is_imported(model):
        return None
    find_model(model)
    return None if in_zoo(model) else run_of(model)


def known_settings(program: str, model: str, run: Workdir | None) -> dict[str, Any]:
    """What its card in the zoo, or its run, records about the training of a model; empty if it has none.

    The program, such as `bin/evaluate`, tells the user if the run is of another version.
    """
    if in_zoo(model):
        card = zoo.card(model.removeprefix(PREFIX))
        return {name: card[name] for name in FROM_RUN if name in card}
    known, remark = ({}, None) if run is None else run.recorded_settings()
    if remark is not None:
        warn_user(program, remark)
    return known


def fill_from_run(
    config: Config, known: Mapping[str, Any], published: Mapping[str, Any] | None = None
) -> Config:
    """Fills in settings that were not given: published ones, what is known about the training, or defaults.

    A `--resize_size` of the run belongs to its `--image_size`, and is not used with another one. Raises
    `InputError` for a path that the user did not name, unless it leads to the data of the run.
    """
    given = {name for name in FROM_RUN if getattr(config, name, 0) is not None}
    given |= {"resize_size"} if "image_size" in given else set()
    found = {**FROM_RUN, **known, **(published or {})}
    values = {name: found[name] for name in FROM_RUN if name not in given}
    dataset = str(values.get("dataset", getattr(config, "dataset", None)))
    if is_path(dataset) or in_memory_only(dataset):
        values["data_dir"] = getattr(config, "data_dir", None)
    if is_path(str(values.get("dataset"))):
        check_followed(known, "dataset")
    elif values.get("data_dir") is not None:
        check_followed(known, "data_dir")
    return dataclasses.replace(config, **values)  # type: ignore[type-var]


def check_followed(known: Mapping[str, Any], name: str) -> None:
    """Raises `InputError` unless a path that the file of a run names leads to what the run was trained on.

    The file may come from somebody else, who could otherwise choose which of the user's images end up in an
    evaluation. Nobody can write the fingerprint who has not seen the data.
    """
    recorded, there = known.get("data_fingerprint"), None
    with contextlib.suppress(OSError, ValueError):  # a file that must not be read, a path with a null byte
        there = source_fingerprint(str(known["dataset"]), known.get("data_dir"))
    check(
        recorded is not None and recorded == there,
        f"The training run of the model names the path '{known[name]}', which is followed only if the data "
        f"there are known to be those of the run. Received: {'a' if recorded else 'no'} fingerprint in its "
        f"{RUN_CONFIG}, and {'no' if there is None else 'other'} data there. Name the images yourself: "
        f"--{name}={known[name]}, if you want these.",
    )


def load_splits(config, **options):
    """The data set, prepared as the settings and further options of `data.load` say."""
    options |= picked(config, "data_dir", "image_size", "resize_size", "skip_corrupt")
    return data.load(str(config.dataset), **options)


def load_images(config, split: str) -> tuple[Any, Any]:
    """The images of a part of the data set, prepared as the settings say; and all parts, a `Splits`."""
    splits = load_splits(config, only=split)
    images = getattr(splits, split)
    check(images is not None, f"The data set '{config.dataset}' has no {split} images.")
    return images, splits
