"""`bin/analyze`: shows why a classifier is robust, as pictures and numbers."""

import json
import pathlib
from collections.abc import Mapping

from athe_tf.analysis import drawing
from athe_tf.analysis.registry import ALL_ANALYSES, RUN_ANALYSES
from athe_tf.jobs.journal import differences
from athe_tf.jobs.locks import locked_folder
from athe_tf.jobs.ownership import check_ours
from athe_tf.programs.command_line import Program, summaries
from athe_tf.programs.config import AnalyzeConfig
from athe_tf.programs.config.analyze import PROJECTIONS
from athe_tf.programs.config.serialization import RECORDS
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import fill_from_run, known_settings, load_images, run_of, training_run_of
from athe_tf.utils.errors import InputError, check

EXAMPLES = """
bin/analyze --model=runs/digits --what=gradient_ratio,linearity --output=runs/digits/analysis
bin/analyze --compare=runs/plain,runs/he --what=class_bias,hessian,landscape
bin/analyze --compare=runs/plain,runs/he --what=landscape --space=pixels
bin/analyze --compare=runs/steps1,runs/steps3,runs/steps7 --what=training_steps
"""
PICTURE_SUFFIXES = ("png", "svg")
# Settings that may differ inside a line of the picture: the steps, and where a run is.
MAY_DIFFER = {"steps", "workdir", "format", "versions", *RECORDS}
# Settings that may also differ between the two lines of the picture: plain and hypersphere embedding.
MAY_DIFFER_BY_HEAD = {"head", "scale", "margin", "weight_norm"}


def action(config: AnalyzeConfig, extra: dict) -> None:
    """Runs the analyses one after another; each is written as soon as it is done."""
    training_runs = [training_run_of(model) for model in config.models]
    groups = runs_by_steps(config.compare) if set(config.what) & RUN_ANALYSES.keys() else {}
    config = fill_from_run(config, known_settings("bin/analyze", config.models[0], training_runs[0]))
    check(config.dataset is not None, "Name the images to analyze, such as --dataset=cifar10.")
    check_free(*map(config.path, config.what))
    INTERRUPTION.remark = "The same command continues with what is missing."
    with locked_folder(config.output):
        run(config, groups)


def run(config: AnalyzeConfig, groups: Mapping[str, Mapping[int, str]]) -> None:
    """Opens models and images, checks them, and runs the analyses; `training_steps` on groups of runs."""
    start_tensorflow()
    import tensorflow as tf

    from athe_tf.analysis.subject import checked_victim
    from athe_tf.programs.analysis_session import AnalysisDisplay, AnalysisSession
    from athe_tf.saving.opening import open_model

    # Every analysis traces the model once more, which TensorFlow takes for a mistake.
    tf.get_logger().setLevel("ERROR")
    # Pictures go to files only, also where there is a display.
    drawing.pyplot(backend="Agg")
    with AnalysisDisplay() as display:
        display.start("Opening models and images")
        opened = {name: open_model(name, input_range=config.input_range) for name in config.models}
        # Many analyses need weights.
        models = {name: each.victim if each.net is None else each.net for name, each in opened.items()}
        for what in config.what:
            for model in models.values():
                checked_victim(ALL_ANALYSES[what], config.chosen_options(what), model)
        images, splits = load_images(config, config.split)
        session = AnalysisSession(config, models, images, splits.class_names, display)
        lines = {f"head {head}": group for head, group in groups.items()}
        for what in config.what:
            session.run(what, lines if what in RUN_ANALYSES else {})


def check_free(*paths: pathlib.Path) -> None:
    """Raises `InputError` if files would be replaced that this program did not write."""
    for path in paths:
        numbers = path.with_name(f"{path.name}.json")
        check_ours(numbers)
        names = [f"{path.name}{view}.{kind}" for view in PROJECTIONS.values() for kind in PICTURE_SUFFIXES]
        pictures = [path.with_name(name) for name in names]
        found = [picture for picture in pictures if picture.exists() and not numbers.exists()]
        check(
            not found,
            f"'{(found or pictures)[0]}' exists, and there are no numbers of an analysis beside it. Move "
            "it, or use another --output.",
        )


def runs_by_steps(folders) -> dict[str, dict[int, str]]:
    """From the head to the number of steps in training to the run.

    Raises `InputError` if runs differ in more than the steps and the head, or if two have the same of both.
    """
    configs = {folder: _config(folder) for folder in folders}
    first = next(iter(configs))
    groups: dict[str, dict[int, str]] = {}
    for folder, config in configs.items():
        group = groups.setdefault(str(config["head"]), {})
        nearest = next(iter(group.values()), folder)
        for other, free in ((first, MAY_DIFFER | MAY_DIFFER_BY_HEAD), (nearest, MAY_DIFFER)):
            differing = sorted({*differences(config, configs[other], "{name}")} - free)
            check(
                not differing,
                "The runs differ in more than the number of attack steps, so their accuracies cannot be "
                f"attributed to the number of steps. '{other}' and '{folder}' differ in: "
                f"{', '.join(differing)}. Leave one out.",
            )
        steps = config.get("steps")
        check(
            isinstance(steps, int) and steps not in group,
            f"Each run of a head needs a number of attack steps of its own. Received: steps={steps} in "
            f"'{folder}'. Leave it out.",
        )
        group[int(str(steps))] = folder
    for head, group in groups.items():
        check(
            len(group) >= 2,
            f"Expected runs of at least two numbers of steps for each head. Received one with head '{head}'.",
        )
    return groups


def _config(folder: str) -> dict:
    run = run_of(folder)
    if run is None:
        raise InputError(
            f"training_steps compares training runs. Received: '{folder}', which has no config.json. Give "
            "the folders of runs of bin/train."
        )
    try:
        return dict(json.loads(run.config.read_text()))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"'{run.config}' cannot be read: {error}. Give the folder of another run."
        ) from error


SUMMARY = "shows why an image classifier is robust, as pictures and numbers."
LISTED = EXAMPLES + summaries("Analyses", ALL_ANALYSES)
main = Program("bin/analyze", SUMMARY, LISTED, AnalyzeConfig, action).run

if __name__ == "__main__":
    main()
