"""The folder of a training run: what is where, and whose it is."""

import pathlib
import re

from athe_tf.programs.config import TrainConfig, differences, flag_text, from_json, to_json
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import write_text
from athe_tf.utils.registry import did_you_mean


class Workdir:
    """Paths of a run.

    | file | what |
    |---|---|
    | `config.json`, `flags.txt` | the settings; the latter runs again with `--flagfile=` |
    | `metrics.csv` | one row an epoch |
    | `best.keras` | the classifier of the best epoch on held-out images; its accuracy in `best.json` |
    | `final.keras`, `saved_model/` | the classifier at the end, and its export |
    | `periods/1.keras` ..., `ensemble.keras` | the classifier at the end of each period, and all as one |
    | `backup/state.npz` | everything that a resume needs, while the run goes on |
    | `backup/previous_epoch.npz` | the weights that the guard against overfitting would return to |
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.config = self.folder / "config.json"
        self.flags = self.folder / "flags.txt"
        self.metrics = self.folder / "metrics.csv"
        self.best = self.folder / "best.keras"
        self.final = self.folder / "final.keras"
        self.saved_model = self.folder / "saved_model"
        self.periods = self.folder / "periods"
        self.ensemble = self.folder / "ensemble.keras"
        self.backup = self.folder / "backup" / "state.npz"
        self.previous_epoch = self.folder / "backup" / "previous_epoch.npz"

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.final.exists() and not self.backup.exists()

    def read_config(self) -> TrainConfig:
        """The settings of the run."""
        try:
            return from_json(TrainConfig, self.config.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"'{self.config}' is not the config of a run: {error}") from error

    def check_free(self, config: TrainConfig) -> None:
        """Raises `InputError` when the folder belongs to another run or to something else."""
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise InputError(f"--workdir must be a folder. Received a file: '{self.folder}'.")
        if not self.config.exists():
            if any(self.folder.iterdir()):
                raise InputError(
                    f"The folder '{self.folder}' holds other things than a training run. "
                    "Use another --workdir."
                )
            return
        changed = differences(self.read_config(), config)
        if changed:
            raise InputError(
                f"The folder '{self.folder}' holds another run. Different here: {', '.join(changed)}. "
                "Use another --workdir."
            )

    def claim(self, config: TrainConfig) -> None:
        """Makes the folder and writes the settings into it."""
        self.check_free(config)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.config, to_json(config))
            write_text(self.flags, flagfile(config))
        except OSError as error:
            raise InputError(f"Cannot write to --workdir={self.folder}: {error.strerror}.") from error


def flagfile(config) -> str:
    """The settings as a file for `--flagfile=`."""
    names = [name for name in vars(config) if getattr(config, name) is not None]
    return "".join(f"--{name}={flag_text(config, name)}\n" for name in names if name != "workdir")


def default_workdir(config: TrainConfig) -> str:
    """A folder named after what the run is."""
    parts = [config.dataset, config.model, config.framework, config.head, f"seed{config.seed}"]
    return "runs/" + "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", part).strip("-") for part in parts)


def find_model(path) -> pathlib.Path:
    """The file or folder that `--model=` means: a workdir stands for its best model."""
    path = pathlib.Path(path)
    if not path.exists():
        siblings = [str(p) for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(
            f"There is no model at '{path}'.{did_you_mean(str(path), siblings)} Expected a .keras file, a "
            "SavedModel folder or the folder of a run."
        )
    if path.is_dir() and (path / "config.json").exists():
        run = Workdir(path)
        for candidate in (run.best, run.final):
            if candidate.exists():
                return candidate
        raise InputError(f"The run in '{path}' has not kept a model yet. Let its first epoch finish.")
    return path


def find_initial_model(path: str) -> pathlib.Path:
    """The `.keras` file that `--initial_model=` means: a workdir stands for its best model."""
    found = find_model(path) if path else pathlib.Path()
    check(
        found.suffix == ".keras",
        "Training begins with the weights of a .keras file or of a run. "
        f"Received: --initial_model={path}. Give the folder of the run, or its best.keras.",
    )
    return found


def run_of(path) -> Workdir | None:
    """The training run that a model belongs to, or `None`."""
    path = pathlib.Path(path)
    for folder in (path, path.parent):
        if folder.is_dir() and (folder / "config.json").exists():
            return Workdir(folder)
    return None
