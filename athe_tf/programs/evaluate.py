"""`bin/evaluate`: measures how robust a classifier is."""

import dataclasses
import pathlib
import shlex
import tempfile
from typing import Any

from athe_tf import data
from athe_tf.distribution.settings import read_local_settings
from athe_tf.evaluation.protocols import PROTOCOLS, get_protocol
from athe_tf.programs.command_line import run, say
from athe_tf.programs.config import EvaluateConfig, flag_text
from athe_tf.programs.progress import AttackProgress
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import Workdir, find_model, run_of
from athe_tf.report.writing import WRITTEN
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.ownership import check_ours, check_state_folder, remove_state

EXAMPLES = """
bin/evaluate --model=runs/digits --attacks=fgsm,pgd-20,cw-linf-20
bin/evaluate --model=runs/digits --protocol=he2020 --output=runs/digits/he2020
bin/evaluate --model=export --dataset=cifar10 --epsilon=8/255 --epsilons=4/255,16/255 --max_examples=1000
bin/evaluate --model=my_models:logits --dataset=npz:images.npz --verify_with=cleverhans,foolbox,art
"""
# What a model's training run knows, and what holds without one.
FROM_RUN: dict[str, Any] = {
    "dataset": None,
    "data_dir": None,
    "image_size": None,
    "norm": "linf",
    "epsilon": 8 / 255,
    "margin": None,
}
# Where the state of an unfinished evaluation is kept, inside --output.
STATE = "state"


def main() -> None:
    """The program."""
    summary = "measures how robust an image classifier is."
    run("bin/evaluate", summary, f"{EXAMPLES}\n{_protocols()}", EvaluateConfig, action)


def _protocols() -> str:
    width = max(len(name) for name in PROTOCOLS)
    rows = (f"  {name:<{width}}  {protocol.summary}" for name, protocol in PROTOCOLS.items())
    return "\n".join(["Protocols:", *rows])


def action(config: EvaluateConfig, flags) -> int:
    """Evaluates what the flags say, and returns the exit code."""
    command = repeat_command(config)
    training_run = training_run_of(config.model)
    config = fill_from_run(config, training_run)
    settings = read_local_settings(config)
    output = None if config.output is None else prepare_output(config.output)
    start_tensorflow()
    from athe_tf.attacks.engine.parallel import over_devices
    from athe_tf.distribution.strategy import local_devices
    from athe_tf.evaluation.evaluator import evaluate
    from athe_tf.programs.open_model import open_victim

    devices = local_devices(settings)
    target = open_victim(config.model, devices)
    images, classes = load_images(config, target.num_classes)
    shown = AttackProgress()
    with over_devices(devices):
        report = evaluate(
            target,
            images,
            attacks=config.attacks or None,
            protocol=config.protocol,
            epsilon=config.epsilon,
            norm=config.norm,
            epsilons=config.epsilons,
            max_examples=config.max_examples,
            batch_size=config.batch_size,
            seed=config.seed,
            checks=config.checks,
            verify_with=config.verify_with,
            substitutes=config.substitutes,
            corruptions=config.corruptions,
            data_dir=config.data_dir,
            margin=config.margin,
            probabilities=config.probabilities,
            name=config.model,
            dataset=f"{config.dataset} ({config.split})",
            state=None if output is None else output / STATE,
            progress=shown.update,
            finished=shown.finished,
        )
    shown.clear()
    if report.classes is not None and classes < report.classes:
        report.warnings.append(
            f"The model has {report.classes} classes, and the data set {classes}: is it the one that it was "
            "trained on?"
        )
    report.command = command
    report.run = None if training_run is None else str(training_run.folder)
    if output is not None:
        write(report, output)
    said = say(report)
    if output is None:
        return 0 if said else 1
    say(f"\nWritten to {output}: open {output / 'report.html'} in a browser.")
    return 0


def write(report, output: pathlib.Path) -> None:
    """Writes everything to the folder; the state is not needed any longer then."""
    from athe_tf import report as pages

    report.save(output)
    remove_state(output / STATE)
    pages.write(output)


def repeat_command(config: EvaluateConfig) -> str:
    """The command line that repeats an evaluation."""
    flags = [
        f"--{field.name}={flag_text(config, field.name)}"
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    ]
    return shlex.join(["bin/evaluate", *flags])


def training_run_of(model: str) -> Workdir | None:
    """The training run that a model belongs to; `InputError` where there is no model."""
    if ":" in model and not pathlib.Path(model).exists():
        return None
    find_model(model)
    return run_of(model)


def fill_from_run(config: EvaluateConfig, training_run: Workdir | None) -> EvaluateConfig:
    """Settings that were left out, from the protocol, the training run of the model, or their defaults."""
    protocol = get_protocol(config.protocol) if config.protocol else None
    known = training_run.read_config() if training_run else None
    values: dict[str, Any] = {}
    for name, default in FROM_RUN.items():
        if getattr(config, name) is not None:
            continue
        values[name] = default
        if known is not None:
            values[name] = known.training_margin if name == "margin" else getattr(known, name)
        # A published radius comes before that of the training: the numbers are to be compared with others.
        if name in ("norm", "epsilon") and protocol is not None and protocol.epsilon is not None:
            values[name] = getattr(protocol, name)
    config = dataclasses.replace(config, **values)
    if config.dataset is None:
        raise InputError("Say which images to evaluate on, as --dataset=cifar10.")
    return config


def load_images(config: EvaluateConfig, classes: int | None):
    """The images to evaluate on, and how many classes they are of."""
    splits = data.load(config.dataset, data_dir=config.data_dir, image_size=config.image_size)
    images = getattr(splits, config.split)
    check(images is not None, f"The data set '{config.dataset}' has no {config.split} images.")
    check(
        classes is None or splits.num_classes <= classes,
        f"The model '{config.model}' has {classes} classes, and the data set '{config.dataset}' has "
        f"{splits.num_classes}. Give the data set that it was trained on.",
    )
    return images, splits.num_classes


def prepare_output(folder) -> pathlib.Path:
    """The output folder; it is tried now, so that nothing is lost at the end."""
    folder = pathlib.Path(folder)
    check_ours(*(folder / name for name in ("evaluation.json", "examples.npz", *WRITTEN)))
    check_state_folder(folder / STATE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"Cannot write to --output={folder}: {error.strerror}.") from error
    return folder


if __name__ == "__main__":
    main()
