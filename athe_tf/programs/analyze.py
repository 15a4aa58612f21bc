"""`bin/analyze`: shows why a classifier is robust, as pictures and numbers."""

import pathlib

from athe_tf.analysis.names import ANALYSES, OF_RUNS, SPACES
from athe_tf.programs.analysis_display import AnalysisDisplay
from athe_tf.programs.command_line import Program
from athe_tf.programs.config import AnalyzeConfig
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.run_settings import fill_from_run, known_settings, load_images
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.training_runs import runs_by_steps
from athe_tf.programs.workdir import training_run_of
from athe_tf.utils.errors import check
from athe_tf.utils.files import sweep
from athe_tf.utils.locks import locked
from athe_tf.utils.ownership import check_ours

EXAMPLES = """
bin/analyze --model=runs/digits --what=gradient_ratio,linearity --output=runs/digits/analysis
bin/analyze --compare=runs/plain,runs/he --what=class_bias,hessian,landscape
bin/analyze --compare=runs/plain,runs/he --what=landscape --space=pixels
bin/analyze --compare=runs/steps1,runs/steps3,runs/steps7 --what=training_steps
"""
#: Of the files of a picture.
PICTURE_SUFFIXES = ("png", "svg")


def main() -> None:
    """The program."""
    summary = "shows why an image classifier is robust, as pictures and numbers."
    width = max(map(len, ANALYSES | OF_RUNS))
    rows = [f"  {name:<{width}}  {entry.summary}" for name, entry in (ANALYSES | OF_RUNS).items()]
    examples = "\n".join([EXAMPLES, "Analyses:", *rows])
    Program("bin/analyze", summary, examples, AnalyzeConfig, action).run()


def action(config: AnalyzeConfig, extra: dict) -> None:
    """Runs the analyses one after another; each is written as soon as it is done."""
    training_runs = [training_run_of(model) for model in config.models]
    groups = runs_by_steps(config.compare) if set(config.what) & OF_RUNS.keys() else {}
    config = fill_from_run(config, known_settings("bin/analyze", config.models[0], training_runs[0]))
    check(config.dataset is not None, "Name the images to analyze, such as --dataset=cifar10.")
    output = pathlib.Path(config.output)
    check_free(*(output / file_stem(config, what) for what in config.what))
    INTERRUPTION.remark = "The same command continues with what is missing."
    with locked(output):
        sweep(output)
        run(config, groups, output)


def run(config: AnalyzeConfig, groups: dict[str, dict[int, str]], output: pathlib.Path) -> None:
    """Opens models and images, checks them, and runs the analyses."""
    start_tensorflow()
    import tensorflow as tf

    from athe_tf.analysis import drawing
    from athe_tf.analysis.requirements import check_weights, checked_victim
    from athe_tf.programs.analysis_session import AnalysisSession
    from athe_tf.saving.opening import open_model

    # Every analysis traces the model once more, which TensorFlow takes for a mistake.
    tf.get_logger().setLevel("ERROR")
    use_file_backend()
    drawing.pyplot()
    with AnalysisDisplay() as display:
        display.start("Opening models and images")
        opened = {name: open_model(name, input_range=config.input_range) for name in config.models}
        # Many analyses need weights.
        models = {name: each.victim if each.net is None else each.net for name, each in opened.items()}
        for what in config.what:
            for model in models.values():
                found = checked_victim(what, model)
                if what == "landscape" and config.space == "weights":
                    check_weights(what, model, found)
        images, splits = load_images(config, config.split)
        session = AnalysisSession(config, models, images, splits.class_names, display)
        for what in config.what:
            path = output / file_stem(config, what)
            if what in OF_RUNS:
                session.run_on_groups(what, groups, path)
            else:
                session.run_on_models(what, path)


def file_stem(config: AnalyzeConfig, what: str) -> str:
    """The name of the files of an analysis, without a suffix: variants of one do not replace each other."""
    if what == "landscape":
        return f"landscape_{config.space}_{config.directions or SPACES[config.space][0]}"
    return f"decision_map_{config.index}" if what == "decision_map" else what


def check_free(*paths: pathlib.Path) -> None:
    """Raises `InputError` if files would be replaced that this program did not write."""
    for path in paths:
        numbers = path.with_name(f"{path.name}.json")
        check_ours(numbers)
        pictures = [path.with_name(f"{path.name}.{suffix}") for suffix in PICTURE_SUFFIXES]
        found = [picture for picture in pictures if picture.exists() and not numbers.exists()]
        check(
            not found,
            f"'{(found or pictures)[0]}' exists, and there are no numbers of an analysis beside it. Move "
            "it, or use another --output.",
        )


def use_file_backend() -> None:
    """Pictures go to files only, also where there is a display; `drawing.pyplot` says if matplotlib lacks."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")


if __name__ == "__main__":
    main()
