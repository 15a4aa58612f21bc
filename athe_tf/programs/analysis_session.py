"""Runs analyses of models on images; what is finished is kept, and not computed again."""

import io
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import athe_tf.analysis
from athe_tf.analysis import AnalysisOptions, AnalysisResult, compare, training_steps
from athe_tf.analysis.files import from_entry, read_content, write
from athe_tf.analysis.result import Picture
from athe_tf.attacks import PGD
from athe_tf.programs.analysis_display import AnalysisDisplay
from athe_tf.programs.analysis_identity import OWN_FLAGS, identity
from athe_tf.programs.command_line import say
from athe_tf.programs.config import AnalyzeConfig
from athe_tf.saving.model_path import RUN_MODELS
from athe_tf.utils.errors import InputError
from athe_tf.utils.files import replacing
from athe_tf.utils.number_format import format_duration

# What a picture in another projection is called.
PROJECTIONS = {"rectilinear": "", "3d": "_surface"}


class AnalysisSession:
    """The models, the images and the settings of the analyses of one command.

    Args:
        config: With the settings of the run filled in.
        models: From the value of `--model` to the opened model.
        images: An image set.
        class_names: The names of the classes, or `None`.
        display: Shows the progress.
    """

    def __init__(self, config: AnalyzeConfig, models: Mapping, images, class_names, display: AnalysisDisplay):
        self.config = config
        self.models = models
        self.images = images
        self.class_names = class_names
        self.display = display
        self.attack = PGD(config.epsilon, config.norm, steps=config.steps)

    def run_on_models(self, what: str, path: pathlib.Path) -> None:
        """Runs an analysis of one model on each model."""
        function = getattr(athe_tf.analysis, what)
        flags = {flag: getattr(self.config, flag) for flag in OWN_FLAGS.get(what, ())}
        given = {flag: value for flag, value in flags.items() if value is not None}
        by_label = dict(zip(picture_names(self.models), self.models, strict=True))

        def compute(label, options):
            return function(self.models[by_label[label]], self.images, self.attack, options, **given)

        self._run(what, path, {label: [model] for label, model in by_label.items()}, compute)

    def run_on_groups(self, what: str, groups: dict[str, dict[int, str]], path: pathlib.Path) -> None:
        """Runs `training_steps` on each group of training runs: from its head to steps to the run."""
        by_label = {f"head {head}": group for head, group in groups.items()}

        def compute(label, options):
            models = {steps: self.models[run] for steps, run in by_label[label].items()}
            return training_steps(models, self.images, self.attack, options)

        self._run(what, path, {label: list(group.values()) for label, group in by_label.items()}, compute)

    def _run(
        self,
        what: str,
        path: pathlib.Path,
        parts: Mapping[str, Sequence[str]],
        compute: Callable[[str, AnalysisOptions], AnalysisResult],
    ) -> None:
        """Computes what is missing, writes it after each part, and draws the whole.

        Args:
            what: The name of the analysis.
            path: Of the files, without a suffix.
            parts: From the name of each result in the picture to the models that it is about.
            compute: From that name and the options to the result.
        """
        began = time.monotonic()
        numbers = path.with_name(f"{path.name}.json")
        kept, pictures = kept_results(numbers)
        wanted = {
            label: identity(self.config, what, label, models, self.images) for label, models in parts.items()
        }
        done = {
            label: result for label, own in wanted.items() for other, result in kept if own and own == other
        }
        missing = [label for label in parts if label not in done]
        for label in missing:
            done[label] = compute(label, self._options(what, label))
            finished = [label for label in parts if label in done]
            write(
                numbers, together([done[label] for label in finished]), [wanted[label] for label in finished]
            )
        whole, identities = together([done[label] for label in parts]), list(wanted.values())
        drawn = all(path.with_name(name).exists() for name in pictures)
        if not (pictures and drawn and identities == [other for other, _ in kept]):
            self.display.start(f"{what}: drawing")
            pictures = save_pictures(whole, path)
            write(numbers, whole, identities, pictures)
        self.display.clear()
        effort = format_duration(time.monotonic() - began) if missing else "kept from before"
        say(f"{whole!r}\n{what}: {effort}; in {numbers.parent}: {', '.join([numbers.name, *pictures])}")

    def _options(self, what: str, label: str) -> AnalysisOptions:
        self.display.start(f"{what} of {label}")
        return AnalysisOptions(
            max_examples=self.config.max_examples,
            batch_size=self.config.batch_size,
            seed=self.config.seed,
            name=label,
            class_names=self.class_names,
            progress=self.display.update,
        )


def picture_names(models: Iterable[str]) -> list[str]:
    """Names for pictures: the folder of a run or of its best model, else the file; paths if two are equal."""
    paths = [pathlib.Path(model) for model in models]
    names = [
        path.parent.name if path.name in RUN_MODELS and path.parent.name else path.name for path in paths
    ]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def together(results: Sequence[AnalysisResult]) -> Picture:
    """One result as it is, several in one picture."""
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
            write_png(figure, temporary)
        plt.close(figure)
        names.append(f"{stem}.png")
    return names


def write_png(figure, path: pathlib.Path) -> None:
    """Writes a figure with a palette of 256 colours, which takes a third of the space."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(path, optimize=True)
