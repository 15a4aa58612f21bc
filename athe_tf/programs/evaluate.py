"""`bin/evaluate`: measures how robust a classifier is."""

import dataclasses
import pathlib
import shlex
from typing import Any

from athe_tf import data
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.evaluation.progress_display import ProgressDisplay
from athe_tf.evaluation.protocols import PROTOCOLS, protocol_for
from athe_tf.programs.command_line import Program, say, warn, warnings_as_lines
from athe_tf.programs.config import EvaluateConfig
from athe_tf.programs.config.serialization import flag_text
from athe_tf.programs.interruption import INTERRUPTION
from athe_tf.programs.output_folder import STATE, prepared
from athe_tf.programs.program_name import as_started
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.programs.workdir import Workdir, find_model, in_zoo, is_imported, recorded_settings, run_of
from athe_tf.report.writing import write
from athe_tf.utils.choices import parse_logit_scale
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.ownership import remove_state

EXAMPLES = """
bin/evaluate --model=runs/digits --attacks=fgsm,pgd-20,cw-linf-20
bin/evaluate --model=runs/digits --protocol=he2020 --output=runs/digits/he2020
bin/evaluate --model=export --dataset=cifar10 --epsilon=8/255 --epsilons=4/255,16/255 --max_examples=1000
bin/evaluate --model=my_models:logits --dataset=npz:images.npz --verify_with=cleverhans,foolbox,art
"""
# Settings that default to those of the model's training run, and their values without one.
FROM_RUN: dict[str, Any] = {
    "dataset": None,
    "data_dir": None,
    "image_size": None,
    "resize_size": None,
    "norm": "linf",
    "epsilon": 8 / 255,
    "margin": None,
}


def main() -> None:
    """The program."""
    summary = "measures how robust an image classifier is."
    examples = f"{EXAMPLES}\n{_protocols()}"
    Program("bin/evaluate", summary, examples, EvaluateConfig, action).run()


def _protocols() -> str:
    width = max(len(name) for name in PROTOCOLS)
    rows = (f"  {name:<{width}}  {protocol.summary}" for name, protocol in PROTOCOLS.items())
    return "\n".join(["Protocols:", *rows])


def action(config: EvaluateConfig, extra: dict) -> int:
    """Runs the evaluation, and returns the exit code."""
    command = repeat_command(config)
    training_run = training_run_of(config.model)
    config = fill_from_run(config, training_run)
    settings = DistributionSettings(config.distribution, config.devices, config.cpu_replicas)
    settings.check_local()
    if config.output is None:
        return run(config, settings, training_run, command, None)
    INTERRUPTION.remark = "The same command resumes the evaluation."
    with prepared(config.output) as output:
        return run(config, settings, training_run, command, output)


def run(
    config: EvaluateConfig,
    settings: DistributionSettings,
    training_run: Workdir | None,
    command: str,
    output: pathlib.Path | None,
) -> int:
    """Evaluates, and returns the exit code."""
    start_tensorflow()
    from athe_tf.attacks.engine.parallel import over_devices
    from athe_tf.distribution.startup import local_devices
    from athe_tf.evaluation.evaluator import evaluate
    from athe_tf.programs.open_model import open_victim

    devices = local_devices(settings, write=say)
    victim = open_victim(config.model, devices, config.input_range)
    with warnings_as_lines("bin/evaluate"):
        images, num_classes = load_images(config, victim.num_classes)
    display = ProgressDisplay()
    options = EvaluationOptions(
        epsilons=config.epsilons,
        verify_with=config.verify_with,
        substitutes={name: open_victim(name) for name in config.substitutes if name != config.model},
        corruptions=config.corruptions,
        corruption_resize=config.corruption_resize,
        data_dir=config.data_dir,
        margin=config.margin,
        logit_scale=parse_logit_scale(config.logit_scale, "--logit_scale"),
        probabilities=config.probabilities,
        max_passes=config.max_passes,
        name=config.model,
        dataset=f"{config.dataset} ({config.split})",
        state=None if output is None else output / STATE,
        progress=display.update,
        finished=display.finished,
    )
    converted = converted_model(config)
    with over_devices(devices), warnings_as_lines("bin/evaluate"):
        result = evaluate(
            victim,
            images,
            attacks=converted.attacks(config.attacks) if converted else config.attacks or None,
            protocol=None if converted else config.protocol,
            epsilon=config.epsilon,
            norm=config.norm,
            max_examples=config.max_examples,
            batch_size=config.batch_size,
            seed=config.seed,
            checks=config.checks,
            options=options,
        )
        if converted is not None:
            result.warnings += converted.remarks(result, victim, images)
    display.clear()
    if result.classes is not None and num_classes < result.classes:
        result.warnings.append(
            f"The model has {result.classes} classes and the data set has {num_classes}. Was the model "
            "trained on it?"
        )
    result.command = command
    result.run = None if training_run is None else str(training_run.folder)
    return show(result, output)


def converted_model(config: EvaluateConfig):
    """How to evaluate a file for another runtime; `None` for other models."""
    from athe_tf.evaluation.converted_model import ConvertedModel
    from athe_tf.evaluation.runtime_model import SUFFIXES
    from athe_tf.programs.open_model import open_victim

    if pathlib.Path(config.model).suffix not in SUFFIXES:
        check(
            config.parent is None,
            f"--parent belongs to an .onnx or .tflite file. Received: --model={config.model}. Leave it out.",
        )
        return None
    check(
        config.protocol is None,
        "A file for another runtime has no gradients, which protocols need. Name attacks that need outputs "
        "only, such as --attacks=square,rays, and give --parent.",
    )
    assert config.epsilon is not None and config.norm is not None
    parent = None if config.parent is None else open_victim(config.parent)
    return ConvertedModel(
        parent, config.epsilon, config.norm, config.seed, config.batch_size, config.max_examples
    )


def show(result, output: pathlib.Path | None) -> int:
    """Writes the result to the output folder, then prints it; returns the exit code."""
    if output is not None:
        result.save(output)
        write(result, output)
        remove_state(output / STATE)
    printed = say(result)
    if output is None:
        return 0 if printed else 1
    say(f"\nWritten to {output}: open {output / 'report.html'} in a browser.")
    return 0


def repeat_command(config: EvaluateConfig) -> str:
    """The command line that repeats an evaluation."""
    flags = [
        f"--{field.name}={flag_text(getattr(config, field.name))}"
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    ]
    return shlex.join([as_started("bin/evaluate"), *flags])


def training_run_of(model: str) -> Workdir | None:
    """The training run that a model belongs to, if any; raises `InputError` if there is no model."""
    if is_imported(model):
        return None
    find_model(model)
    return None if in_zoo(model) else run_of(model)


def fill_from_run(config: EvaluateConfig, training_run: Workdir | None) -> EvaluateConfig:
    """Fills in settings that were not given: from the protocol, the model's training run, or the defaults."""
    known, remark = recorded_settings(config.model, training_run)
    if remark is not None:
        warn(as_started(f"bin/evaluate: {remark}"))
    protocol = (
        protocol_for(config.protocol, config.dataset or known.get("dataset")) if config.protocol else None
    )
    values: dict[str, Any] = {} if protocol is None else {"protocol": protocol.name}
    for name, default in FROM_RUN.items():
        if getattr(config, name) is not None or (name == "resize_size" and config.image_size is not None):
            continue
        values[name] = known.get(name, default)
        # A published radius takes precedence: its numbers are compared with others at that radius.
        if name in ("norm", "epsilon") and protocol is not None and protocol.epsilon is not None:
            values[name] = getattr(protocol, name)
    config = dataclasses.replace(config, **values)
    if config.dataset is None:
        raise InputError("Name the images to evaluate on, such as --dataset=cifar10.")
    return config


def load_images(config: EvaluateConfig, classes: int | None):
    """The images to evaluate on, and their number of classes."""
    splits = data.load(
        str(config.dataset),
        data_dir=config.data_dir,
        image_size=config.image_size,
        resize_size=config.resize_size,
        skip_corrupt=config.skip_corrupt,
    )
    images = getattr(splits, config.split)
    check(images is not None, f"The data set '{config.dataset}' has no {config.split} images.")
    check(
        classes is None or splits.num_classes <= classes,
        f"The model '{config.model}' has {classes} classes, and the data set '{config.dataset}' has "
        f"{splits.num_classes}. Use the data set that it was trained on.",
    )
    check(
        classes in (None, splits.num_classes) or not str(config.dataset).startswith("folder:"),
        f"The model '{config.model}' has {classes} classes, and '{config.dataset}' has "
        f"{splits.num_classes}, whose folders number the labels. Add the folders of the other classes; those "
        "of `test` may be empty if there is no `train`.",
    )
    return images, splits.num_classes


if __name__ == "__main__":
    main()
