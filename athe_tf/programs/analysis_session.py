"""Runs analyses of models on images; what is finished is kept, and not computed again."""

import dataclasses
import pathlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import athe_tf.analysis
from athe_tf.analysis import AnalysisOptions, AnalysisResult, compare
from athe_tf.analysis.registry import from_entry, read_content, write
from athe_tf.analysis.result import Picture
from athe_tf.attacks import PGD
from athe_tf.drawing.png import write_figure
from athe_tf.jobs.journal import same_job
from athe_tf.programs.command_line import print_line
from athe_tf.programs.config import AnalyzeConfig
from athe_tf.programs.config.analyze import PROJECTIONS
from athe_tf.programs.config.fields import picked
from athe_tf.programs.heartbeat import INTERVAL, Heartbeat
from athe_tf.saving.names import RUN_MODELS, find_model, is_imported
from athe_tf.utils.digests import file_digest
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing
from athe_tf.utils.number_format import format_duration
from athe_tf.utils.streams import one_line
from athe_tf.version import __version__

# Settings that change nothing in the result of a model: others say what they mean.
EXCLUDED_SETTINGS = {"model", "compare", "what", "output", "dataset", "data_dir", "skip_corrupt"}
# Settings that older results do not have: they count where they are given.
LATER_SETTINGS = {"input_range", "resize_size"}
# A terminal flickers if it is redrawn more often than this, in seconds.
REDRAW = 0.1


class AnalysisDisplay(Heartbeat):
    """Shows which analysis is running, and how far it is, also while a single step takes long.

    One line, replaced, on a terminal; otherwise a line per minute. A context, inside of which `start` and
    `update` are called.

    Args:
        stream: Where to write; standard error by default.
        interval: Seconds between two lines. Defaults to a minute.
    """

    def __init__(self, stream=None, interval: float = INTERVAL):
        self.stream = sys.stderr if stream is None else stream
        self.terminal = bool(self.stream.isatty())
        super().__init__(self._draw, self.line, interval)
        self.start("Starting")

    def __exit__(self, *error) -> None:
        super().__exit__(*error)
        self.clear()

    def start(self, what: str) -> None:
        """Names what is running from now on."""
        self._what, self._began = what, time.monotonic()
        self._done: int = 0
        self._total: int | None = None

    def update(self, done: int, total: int | None) -> None:
        """The `progress` function of an analysis."""
        self._done, self._total = done, total
        if self.terminal and time.monotonic() - self._last >= REDRAW:
            self.write(self.line())

    def line(self) -> str:
        """What is running, how many steps are done, and since when."""
        steps = f"{self._done} of {self._total} steps" if self._total else f"{self._done} steps"
        elapsed = format_duration(time.monotonic() - self._began)
        return one_line(f"{self._what}: {f'{steps}, ' if self._done else ''}{elapsed}")

    def clear(self) -> None:
        """Clears the terminal's line."""
        if self.terminal:
            self._draw("")

    def _draw(self, line: str) -> None:
        self.stream.write(f"\r\033[K{line}" if self.terminal else f"{line}\n")
        self.stream.flush()


@dataclasses.dataclass
class AnalysisSession:
    """The models, the images and the settings of the analyses of one command.

    Args:
        config: With the settings of the run filled in.
        models: From the value of `--model` to the opened model.
        images: An image set.
        class_names: The names of the classes, or `None`.
        display: Shows the progress.
    """

    config: AnalyzeConfig
    models: Mapping
    images: Any
    class_names: tuple[str, ...] | None
    display: AnalysisDisplay

    def run(self, what: str, groups: Mapping[str, Mapping[int, str]]) -> None:
        """Computes what is missing of an analysis, writes it after each part, and draws the whole.

        Args:
            what: The name of the analysis.
            groups: From the name of each result in the picture to the training runs that it is about, by
                their numbers of steps; empty for a result per model.
        """
        parts = groups or dict(zip(picture_names(self.models), self.models, strict=True))
        began, path = time.monotonic(), self.config.path(what)
        numbers = path.with_name(f"{path.name}.json")
        kept, pictures = kept_results(numbers)
        wanted = {label: self.identity(what, label, part) for label, part in parts.items()}
        done = {label: one for label, own in wanted.items() for other, one in kept if same_job(own, other)}
        missing = [label for label in parts if label not in done]
        for label in missing:
            done[label] = self._compute(what, label, parts[label])
            finished = {label: done[label] for label in parts if label in done}
            write(numbers, together([*finished.values()]), [wanted[label] for label in finished])
        whole, identities = together([done[label] for label in parts]), list(wanted.values())
        drawn = pictures and all(path.with_name(name).exists() for name in pictures)
        same = len(kept) == len(identities) and all(map(same_job, identities, [other for other, _ in kept]))
        if not (drawn and same):
            self.display.start(f"{what}: drawing")
            pictures = save_pictures(whole, path)
            write(numbers, whole, identities, pictures)
        self.display.clear()
        effort = format_duration(time.monotonic() - began) if missing else "kept from before"
        print_line(
            f"{whole!r}\n{what}: {effort}; in {numbers.parent}: {', '.join([numbers.name, *pictures])}"
        )

    def _compute(self, what: str, label: str, part: str | Mapping[int, str]) -> AnalysisResult:
        """The result of one model, or of the training runs of a group."""
        self.display.start(f"{what} of {label}")
        models, config = self.models, self.config
        settings = picked(config, "max_examples", "batch_size", "seed")
        options = AnalysisOptions(
            **settings, name=label, class_names=self.class_names, progress=self.display.update
        )
        opened = models[part] if isinstance(part, str) else {n: models[run] for n, run in part.items()}
        attack = PGD(config.epsilon, config.norm, steps=config.steps)
        function = getattr(athe_tf.analysis, what)
        return function(opened, self.images, attack, options, **config.given_options(what))

    def identity(self, what: str, label: str, part: str | Mapping[int, str]) -> dict | None:
        """What a result depends on: whether one that was kept is still the same; `None` if nobody knows."""
        digests = [model_digest(model) for model in ([part] if isinstance(part, str) else part.values())]
        if None in digests:
            return None
        excluded = EXCLUDED_SETTINGS | self.config.foreign_options(what)
        settings = {
            field.name: getattr(self.config, field.name)
            for field in dataclasses.fields(self.config)
            if field.name not in excluded
            and (field.name not in LATER_SETTINGS or getattr(self.config, field.name) != field.default)
        }
        images = self.images.fingerprint()
        return {
            "athe_tf": __version__, "label": label, "models": digests, "images": images, "settings": settings,
        }  # fmt: skip


def model_digest(model: str) -> str | None:
    """The digest of the files of a model; `None` for a function, which may depend on anything."""
    if is_imported(model):
        return None
    path = pathlib.Path(find_model(model))
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return file_digest(*files)


def picture_names(models: Iterable[str]) -> list[str]:
    """Names for pictures: the folder of a run or of its best model, else the file; paths if two are equal."""
    paths = [pathlib.Path(model) for model in models]
    names = [(path.name in RUN_MODELS and path.parent.name) or path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def together(results: Sequence[AnalysisResult]) -> Picture:
    """One result unchanged, several in one picture."""
    return results[0] if len(results) == 1 else compare(results)


def kept_results(numbers: pathlib.Path) -> tuple[list[tuple[dict | None, AnalysisResult]], list[str]]:
    """What an earlier command left: `(identity, result)` of each model, and the names of the pictures."""
    try:
        content = read_content(numbers)
        results = [(entry.get("identity"), from_entry(entry)) for entry in content["models"]]
    except InputError:
        return [], []
    return results, list(content.get("pictures", ()))


def save_pictures(picture: Picture, path: pathlib.Path) -> list[str]:
    """Draws a picture in every projection; returns the names of the PNG files, beside each an SVG file."""
    import matplotlib.pyplot as plt

    names = []
    for projection in picture.results[0].projections:
        axes = picture.plot(projection=projection)
        figure = (axes[0] if isinstance(axes, list) else axes).figure
        stem = f"{path.name}{PROJECTIONS[projection]}"
        with replacing(path.with_name(f"{stem}.svg")) as temporary:
            figure.savefig(temporary, metadata={"Date": None})
        with replacing(path.with_name(f"{stem}.png")) as temporary:
            write_figure(figure, temporary)
        plt.close(figure)
        names.append(f"{stem}.png")
    return names
