"""`bin/export`: writes a classifier as a SavedModel, or as a file for another runtime."""

import pathlib

from athe_tf.programs.command_line import Program, say, warn
from athe_tf.programs.config import ExportConfig
from athe_tf.programs.program_name import as_started
from athe_tf.programs.start_tensorflow import start_tensorflow, stderr_held_back
from athe_tf.programs.workdir import find_model, recorded_settings, run_of
from athe_tf.utils.errors import InputError, check

EXAMPLES = """
bin/export --model=runs/digits --output=export
bin/export --model=best.keras --format=torch --output=net.pt
bin/export --model=zoo:cifar10-fast-at-he-wrn10-1 --format=onnx --output=net.onnx
bin/export --model=runs/digits --format=litert_int8 --output=net.tflite
"""


def main() -> None:
    """The program."""
    summary = "writes a classifier as a SavedModel, or for PyTorch, ONNX or LiteRT."
    Program("bin/export", summary, EXAMPLES, ExportConfig, action).run()


def action(config: ExportConfig, extra: dict) -> None:
    """Exports the model that the flags name."""
    path = find_model(config.model)
    if path.is_dir():
        raise InputError(f"'{path}' is a SavedModel already. Give a .keras file or a workdir.")
    if pathlib.Path(config.output).exists():
        raise InputError(f"'{config.output}' exists already. Export to another folder or file.")
    start_tensorflow()
    from athe_tf.saving.keras_file import load_model

    settings, remark = recorded_settings(config.model, run_of(path))
    if remark is not None:
        warn(as_started(f"bin/export: {remark}"))
    write = _write_saved_model if config.format == "saved_model" else _write_file
    say(f"Exported {path} to {config.output}: {write(load_model(path), config, settings)}")


def _write_saved_model(net, config: ExportConfig, settings: dict) -> str:
    """Writes a folder, and returns what to tell the user."""
    from athe_tf.saving.saved_model import export

    card = export(net, config.output, margin=settings.get("margin"))
    alone = card["head"] in ("unknown", "ensemble")
    endpoints = "endpoint serve" if alone else "endpoints serve and features"
    return f"{endpoints}, {card['num_classes']} classes, head {card['head']}."


def _write_file(net, config: ExportConfig, settings: dict) -> str:
    """Writes a file and its card, and returns what to tell the user."""
    from athe_tf.models.torch_export import layout_of
    from athe_tf.saving.converted_file import card_path, convert

    images = _calibration_images(config, settings) if config.format == "litert_int8" else None
    with stderr_held_back(lambda: False):  # the converters of TensorFlow print what they do
        card = convert(net, config.output, config.format, margin=settings.get("margin"), images=images)
    layout = f"state dict of the {card['layout']}, " if "layout" in card else ""
    text = f"{layout}{card['num_classes']} classes, head {card['head']}. Card: {card_path(config.output)}."
    if config.format == "torch" and card["scale"] not in (None, 1.0):
        text += f"\nThe scale {card['scale']:g} of the head is on the card: a state dict has no place for it."
    if config.format == "torch" and card["normalization"] is not None and layout_of(net).outside:
        text += "\nThe normalization is on the card: the published class has it outside of its state dict."
    return text


def _calibration_images(config: ExportConfig, settings: dict):
    """Training images, from which the ranges of activations are measured."""
    from athe_tf import data

    dataset = config.dataset or settings.get("dataset")
    check(dataset is not None, "Eight bits need images to measure ranges on. Name them: --dataset=cifar10.")
    splits = data.load(
        str(dataset),
        data_dir=config.data_dir or settings.get("data_dir"),
        image_size=settings.get("image_size"),
    )
    return splits.train.arrays(config.calibration_images)[0]


if __name__ == "__main__":
    main()
