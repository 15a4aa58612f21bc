"""`EvaluationJob`: the model and the images that `bin/evaluate` was told, their evaluation, its folder."""

import contextlib
import dataclasses
import functools
import pathlib
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from athe_tf import zoo
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.evaluation.options import CommonOptions, EvaluationOptions
from athe_tf.evaluation.progress import ProgressDisplay
from athe_tf.jobs.locks import locked_folder
from athe_tf.jobs.ownership import STATE, check_ours, check_state_folder, remove_state
from athe_tf.jobs.shard import Shard
from athe_tf.programs.accelerators import Accelerator, operations
from athe_tf.programs.command_line import NOT_MET, print_line, warnings_as_lines, with_program_names
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.config.fields import picked
from athe_tf.programs.config.serialization import as_flags
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import Workdir, find_model, is_imported, load_images
from athe_tf.report.gate import is_met, judge
from athe_tf.report.reading import SavedEvaluation, as_saved
from athe_tf.report.writing import WRITTEN, write
from athe_tf.results.file_format import LessCommonOptions
from athe_tf.results.notices import Notice
from athe_tf.saving.names import PREFIX, in_zoo
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.options import values_of


@dataclasses.dataclass
class EvaluationJob:
    """A model and images, opened once, and evaluated as a whole or in shards.

    Args:
        config: The settings, completed from the training run.
        training_run: The run that the model belongs to, if any.
        command: The command that repeats the evaluation.
        settings: The devices of this machine. Defaults to all GPUs, or the CPU.
        baseline: The evaluation of the shipped model, to compare with.
    """

    config: EvaluateConfig
    training_run: Workdir | None
    command: str
    settings: DistributionSettings = dataclasses.field(default_factory=lambda: DistributionSettings("auto"))
    baseline: SavedEvaluation | None = None

    def open(self) -> None:
        """Starts TensorFlow, and reads the model and the images."""
        start_tensorflow()
        from athe_tf.distribution.strategy import local_devices
        from athe_tf.models.victim import replicated_victim
        from athe_tf.saving.opening import open_model

        config = self.config
        self.devices = local_devices(self.settings, write=print_line)
        several: dict[str, Any] = {}
        if len(self.devices) > 1:
            check(
                not is_imported(config.model) and find_model(config.model).suffix == ".keras",
                f"Only the weights of a .keras file can be put on {len(self.devices)} devices. Received: "
                f"--model={config.model}. Use --distribution=one.",
            )
            several = {"from_keras": functools.partial(replicated_victim, devices=self.devices)}
        with warnings_as_lines("bin/evaluate"):
            self.images, splits = load_images(config, config.split)
        inputs = picked(config, "input_range", "mean", "std")
        inputs["data"] = splits.num_classes, splits.image_shape
        self.victim = open_model(config.model, **inputs, **several).victim
        reason = self.victim.facts.get("not_converted")
        check(
            not reason or config.parent is not None or len(config.attacks) > 0,
            f"{reason} Without it, '{config.model}' has no gradients: give --parent, or name attacks that "
            "need outputs only, such as --attacks=square-1000,rays-1000.",
        )
        self.num_classes, self.class_names = splits.num_classes, config.class_names or splits.class_names
        of_model, of_images = self.victim.num_classes, self.num_classes
        check(
            of_model is None or of_images <= of_model,
            f"The model '{config.model}' has {of_model} classes, and the data set '{config.dataset}' has "
            f"{of_images}. Use the data set that it was trained on.",
        )
        check(
            of_model in (None, of_images) or not str(config.dataset).startswith("folder:"),
            f"The model '{config.model}' has {of_model} classes, and '{config.dataset}' has {of_images}, "
            "whose folders number the labels. Add the folders of the other classes; those of `test` may be "
            "empty if there is no `train`.",
        )
        if splits.train is None and splits.class_names is None:
            # Images for testing only need not show every class.
            self.num_classes = of_model or of_images
        check(
            len(config.class_names) in (0, self.num_classes),
            f"--class_names names each class once. Expected {self.num_classes} names. Received: "
            f"--class_names={','.join(config.class_names)}. Give one per class, in the order of the labels.",
        )
        others = [name for name in config.substitutes if name != config.model]
        self.substitutes = {name: open_model(name).victim for name in others}

    def evaluate(self, state, shard: Shard | None = None, shards: Sequence[pathlib.Path] = ()) -> Any:
        """The `Result` of all images, or of one shard.

        Args:
            state: The folder that keeps the state, or `None`.
            shard: Attack only this share of the images.
            shards: The states of all shards, which are merged.
        """
        from athe_tf.evaluation.converted_model import evaluate_converted
        from athe_tf.evaluation.evaluator import evaluate
        from athe_tf.saving.opening import open_model

        config, display = self.config, ProgressDisplay()
        common = values_of(CommonOptions, config)
        common["options"] = EvaluationOptions(
            **values_of(LessCommonOptions, config),
            substitutes=self.substitutes,
            data_dir=config.data_dir,
            name=config.model,
            dataset=f"{config.dataset} ({config.split})",
            state=state,
            shard=shard,
            shards=shards,
            progress=display.update,
            finished=display.finished,
        )
        with warnings_as_lines("bin/evaluate"):
            if config.is_converted:
                common |= {"parent": None, "attacks": config.attacks or None}
                if config.parent:
                    inputs = picked(config, "input_range", "mean", "std")
                    common["parent"] = open_model(config.parent, **inputs).victim
                result = evaluate_converted(self.victim, self.images, **common)
                if config.parent and result.conversion is not None:
                    result.conversion["parent"] = str(config.parent)  # as the user knows it
            else:
                common["attacks"] = config.attacks or None
                result = evaluate(self.victim, self.images, **common)
        display.clear()
        if result.classes is not None and self.num_classes < result.classes:
            counts = f"The model has {result.classes} classes and the data set has {self.num_classes}."
            result.warnings.append(Notice(f"{counts} Was the model trained on it?", id="fewer-classes"))
        result.warnings += self._other_norm(result.norm)
        if result.classes == len(self.class_names or ()):
            result.class_names = list(self.class_names)
        result.command = self.command
        result.run = None if self.training_run is None else str(self.training_run.folder)
        return result

    def _other_norm(self, norm: str) -> list[Notice]:
        """A warning if the model was adversarially trained in another norm than it was attacked in."""
        known: dict[str, Any] = {}
        if in_zoo(self.config.model):
            known = zoo.card(self.config.model.removeprefix(PREFIX))
        elif self.training_run is not None:
            known = self.training_run.recorded_settings()[0]
        trained = known.get("norm", norm)
        if trained == norm or known.get("framework") == "standard":
            return []
        text = (
            f"The model was trained in {trained} and attacked in {norm}, where gradients mislead more often "
            "and 'swift' is weaker than in the norm of training. Use 'autoattack' for a number to quote."
        )
        return [Notice(text, id="training-norm")]

    def plan(self, device: Accelerator | None = None) -> str:
        """Passes, seconds and memory of every attack, as text; the seconds on a device that is not here."""
        from athe_tf.evaluation.plan import plan_evaluation
        from athe_tf.programs.cost_estimate import describe_attacks

        config = self.config
        check(
            not config.is_converted, "--plan is for models with gradients. Plan the evaluation of the parent."
        )
        options = EvaluationOptions(**values_of(LessCommonOptions, config))
        with warnings_as_lines("bin/evaluate"):
            stay, costs = plan_evaluation(
                self.victim, self.images, options, **values_of(CommonOptions, config)
            )
        counted = operations(self.victim.logits, self.images.image_shape) if device else 0.0
        return describe_attacks(stay, costs, device, counted)

    def show(self, result, output: pathlib.Path | None) -> int:
        """Judges the result, writes it to the output folder, prints it; returns the exit code."""
        problem = None
        try:
            result.requirements = judge(as_saved(result), self.config, self.baseline)
        except InputError as error:
            problem = error  # what attacks found in hours is written before
        if output is not None:
            result.save(output)
            write(dataclasses.replace(as_saved(result, folder=output), baseline=self.baseline))
            remove_state(output / STATE)
        printed = print_line(result)
        if output is not None:
            print_line(f"\nWritten to {output}: open {output / 'report.html'} in a browser.")
        if problem is not None:
            raise problem
        if not is_met(result.requirements):
            return NOT_MET
        return 0 if printed or output is not None else 1


@contextlib.contextmanager
def open_output(folder) -> Iterator[pathlib.Path]:
    """The folder for a new evaluation; tested before it starts, so that nothing is lost at the end."""
    folder = pathlib.Path(folder)
    check_ours(*(folder / name for name in ("evaluation.json", "examples.npz", *WRITTEN)))
    check_state_folder(folder / STATE)
    with locked_folder(folder, STATE):
        tempfile.TemporaryFile(dir=folder).close()
        yield folder


def repeat_command(config: EvaluateConfig) -> str:
    """The command line that repeats an evaluation."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    given = {name: value for name, value in picked(config, *defaults).items() if value != defaults[name]}
    return shlex.join([with_program_names("bin/evaluate"), *as_flags(given)])
