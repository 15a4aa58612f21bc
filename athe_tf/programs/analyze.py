"""`bin/analyze`: shows why a classifier is robust, as pictures and numbers."""

import dataclasses
import json
import pathlib
import sys
from typing import Any

from athe_tf import data
from athe_tf.analysis.names import ANALYSES, OF_RUNS
from athe_tf.programs.command_line import Program, say, warn
from athe_tf.programs.config import AnalyzeConfig
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.training_runs import runs_by_steps
from athe_tf.programs.workdir import find_model, is_imported, run_of
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.files import replacing, sweep
from athe_tf.utils.locks import locked
from athe_tf.utils.ownership import check_ours

EXAMPLES = """
bin/analyze --model=runs/digits --what=gradient_ratio,linearity --output=analysis
bin/analyze --compare=runs/plain,runs/he --what=class_bias,hessian,landscape
bin/analyze --compare=runs/steps1,runs/steps3,runs/steps7 --what=training_steps
"""
# Settings that default to those of the first model's training run, and their values without one.
FROM_RUN: dict[str, Any] = {
    "dataset": None,
    "data_dir": None,
    "image_size": None,
    "norm": "linf",
    "epsilon": 8 / 255,
}
# Flags that only some analyses have.
SPECIAL = {
    "landscape": ("space", "directions", "points"),
    "decision_map": ("index", "points"),
    "hessian": ("top",),
}


def main() -> None:
    """The program."""
    summary = "shows why an image classifier is robust, as pictures and numbers."
    width = max(map(len, ANALYSES | OF_RUNS))
    rows = [f"  {name:<{width}}  {text}" for name, text in (ANALYSES | OF_RUNS).items()]
    examples = "\n".join([EXAMPLES, "Analyses:", *rows])
    Program("bin/analyze", summary, examples, AnalyzeConfig, action).run()


def action(config: AnalyzeConfig, extra: dict) -> None:
    """Runs the analyses one after another; each is written as soon as it is done."""
    for model in config.models:
        if not is_imported(model):
            find_model(model)
    groups = runs_by_steps(config.compare) if set(config.what) & OF_RUNS.keys() else {}
    config = fill_from_run(config)
    output = pathlib.Path(config.output)
    check_ours(*(output / f"{name}.json" for name in config.what))
    with locked(output):
        sweep(output)
        run(config, groups, output)


def run(config: AnalyzeConfig, groups: dict[str, dict[int, str]], output: pathlib.Path) -> None:
    """Opens models and images, and runs the analyses."""
    start_tensorflow()
    from athe_tf.analysis import drawing
    from athe_tf.analysis.result import compare

    use_file_backend()
    drawing.pyplot()
    models = {name: open_model(name) for name in config.models}
    images = load_images(config)
    for what in config.what:
        if what in OF_RUNS:
            results = [of_runs(config, models, images, head, group) for head, group in groups.items()]
        else:
            results = [of_model(config, what, models[name], images, name) for name in config.models]
        save(results[0] if len(results) == 1 else compare(results), output / what)


def use_file_backend() -> None:
    """Pictures go to files only, also where there is a display; `drawing.pyplot` says if matplotlib lacks."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")


def of_model(config: AnalyzeConfig, what: str, model, images, name: str):
    """The result of an analysis of one model."""
    import athe_tf.analysis

    function = getattr(athe_tf.analysis, what)
    special = {flag: getattr(config, flag) for flag in SPECIAL.get(what, ())}
    special = {flag: value for flag, value in special.items() if value is not None}
    return function(model, images, attack_of(config), options_of(config, f"{what}, {name}", name), **special)


def of_runs(config: AnalyzeConfig, models: dict, images, head: str, group: dict[int, str]):
    """The line of one head, over runs."""
    from athe_tf.analysis import training_steps

    options = options_of(config, f"training_steps, head {head}", f"head {head}")
    chosen = {steps: models[folder] for steps, folder in group.items()}
    return training_steps(chosen, images, attack_of(config), options)


def attack_of(config: AnalyzeConfig):
    """The attack that the flags describe."""
    from athe_tf.attacks import PGD

    return PGD(config.epsilon, config.norm, steps=config.steps)


def options_of(config: AnalyzeConfig, what: str, name: str):
    """The options of an analysis, with progress on standard error if that is a terminal."""
    from athe_tf.analysis.options import AnalysisOptions

    def progress(done: int, total: int) -> None:
        print(f"\r\033[K{what}: {done} of {total}", end="", file=sys.stderr, flush=True)
        if done == total:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    return AnalysisOptions(
        max_examples=config.max_examples,
        batch_size=config.batch_size,
        seed=config.seed,
        name=short_name(name),
        progress=progress if sys.stderr.isatty() else None,
    )


def short_name(model: str) -> str:
    """A name for pictures: the folder of a run or of its best model, else the file."""
    path = pathlib.Path(model)
    return path.parent.name if path.name in ("best.keras", "final.keras") and path.parent.name else path.name


def open_model(name: str):
    """A Keras model where there is one, since many analyses need weights; else a victim."""
    from athe_tf.programs.open_model import open_victim
    from athe_tf.saving.keras_file import load_model

    path = None if is_imported(name) else find_model(name)
    return load_model(path) if path is not None and path.is_file() else open_victim(name)


def fill_from_run(config: AnalyzeConfig) -> AnalyzeConfig:
    """Fills in settings that were not given, from the first model's training run or the defaults."""
    training_run = None if is_imported(config.models[0]) else run_of(config.models[0])
    known, remark = training_run.recorded_settings() if training_run else ({}, None)
    if remark is not None:
        warn(f"bin/analyze: {remark}")
    missing = {name: default for name, default in FROM_RUN.items() if getattr(config, name) is None}
    config = dataclasses.replace(config, **{name: known.get(name, missing[name]) for name in missing})
    if config.dataset is None:
        raise InputError("Name the images to analyze, such as --dataset=cifar10.")
    return config


def load_images(config: AnalyzeConfig):
    """The images of the chosen split."""
    splits = data.load(str(config.dataset), data_dir=config.data_dir, image_size=config.image_size)
    images = getattr(splits, config.split)
    check(images is not None, f"The data set '{config.dataset}' has no {config.split} images.")
    return images


def save(result, path: pathlib.Path) -> None:
    """Writes the numbers and the pictures, and says what was found."""
    pictures = {path.name: result.plot}
    if hasattr(result, "plot_surface"):
        pictures[f"{path.name}_surface"] = result.plot_surface
    for name, draw in pictures.items():
        write_picture(draw(), path.with_name(name))
    with replacing(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(result.to_dict(), indent=1) + "\n")
    say(f"{result!r}\nWritten to {path}.png, .svg and .json.")


def write_picture(axes, path: pathlib.Path) -> None:
    """Writes a figure as PNG and SVG, and closes it."""
    import matplotlib.pyplot as plt

    figure = (axes[0] if isinstance(axes, list) else axes).figure
    for suffix, metadata in ((".png", None), (".svg", {"Date": None})):
        with replacing(path.with_suffix(suffix)) as temporary:
            figure.savefig(temporary, metadata=metadata)
    plt.close(figure)


if __name__ == "__main__":
    main()
