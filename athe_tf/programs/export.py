"""`bin/export`: writes a classifier as a SavedModel, or as a file for another runtime."""

import dataclasses
import pathlib

from athe_tf.programs.command_line import Program, print_line
from athe_tf.programs.config.fields import ImageOptions, flag
from athe_tf.programs.start_tensorflow import start_tensorflow, stderr_held_back
from athe_tf.programs.workdir import fill_from_run, find_model, known_settings, load_images, run_of
from athe_tf.utils.choices import EXPORT_SUFFIXES, NORMS
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option, with_help

EXAMPLES = """
bin/export --model=runs/digits --output=export
bin/export --model=best.keras --format=torch --output=net.pt
bin/export --model=zoo:cifar10-fast-at-he-wrn10-1 --format=onnx --output=net.onnx
bin/export --model=runs/digits --format=litert_int8 --output=net.tflite
bin/export --model=runs/digits --format=vnnlib --examples=0,3,7 --output=DIR
"""


@dataclasses.dataclass(frozen=True)
class ExportConfig:
    """An export to a SavedModel or to a file for another runtime."""

    model: str = option(
        "", "A .keras file, a workdir of bin/train, or zoo:NAME; for vnnlib also an .onnx file."
    )
    output: str = option(
        "",
        "What to write; must not exist yet. A folder for saved_model and vnnlib, else a file: .pt, .pth or "
        ".safetensors for torch, .onnx for onnx, .tflite for litert and litert_int8.",
    )
    format: str = option("saved_model", "The format.", choices=tuple(EXPORT_SUFFIXES))
    dataset: str | None = option(
        None,
        "Where litert_int8 takes images from, to measure ranges of activations, and vnnlib those to verify. "
        "[the training run's]",
    )
    data_dir: str | None = option(None, "Folder of prepared data sets. [the training run's]")
    image_size: int | None = option(None, "Crop and resize these images. [the training run's]", gt=0)
    resize_size: int | None = option(
        None, "Shorter side of an image before the crop. [the training run's with its --image_size]", gt=0
    )
    skip_corrupt: bool = with_help(ImageOptions, "skip_corrupt")
    calibration_images: int = option(200, "How many training images litert_int8 takes.", gt=0)
    norm: str | None = option(None, "Norm of vnnlib: linf. [the training run's]", choices=NORMS)
    epsilon: float | None = option(None, "Radius of vnnlib. [the training run's]", gt=0, le=1)
    examples: tuple[int, ...] = option(
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "Which test images vnnlib takes, by number."
    )

    def __post_init__(self):
        check_options(self, flag)
        check(bool(self.model), "Specify which model to export: --model=FILE.keras or a workdir.")
        suffixes = EXPORT_SUFFIXES[self.format]
        place = f"FILE{suffixes[0]}" if suffixes else "FOLDER"
        check(bool(self.output), f"Specify where to write: --output={place}.")
        check(
            not suffixes or pathlib.Path(self.output).suffix in suffixes,
            f"--format={self.format} writes a file that ends with {' or '.join(suffixes)}. Received: "
            f"--output={self.output}.",
        )


def action(config: ExportConfig, extra: dict) -> None:
    """Exports the model that the flags name."""
    path = find_model(config.model)
    kinds = (".keras", ".onnx") if config.format == "vnnlib" else (".keras",)
    check(
        path.suffix in kinds,
        f"--format={config.format} is made of a {' or '.join(kinds)} file. Received: --model={path}. Give "
        "one, or a workdir.",
    )
    exists = pathlib.Path(config.output).exists()
    check(not exists, f"'{config.output}' exists already. Export to another folder or file.")
    start_tensorflow()
    from athe_tf.saving.keras_file import load_model

    settings = known_settings("bin/export", config.model, run_of(path))
    write = {"saved_model": _write_saved_model, "vnnlib": _write_properties}.get(config.format, _write_file)
    model = path if path.suffix == ".onnx" else load_model(path)
    print_line(f"Exported {path} to {config.output}: {write(model, config, settings)}")


def _write_saved_model(net, config: ExportConfig, settings: dict) -> str:
    """Writes a folder, and returns what to tell the user."""
    from athe_tf.conversion.converted_file import convertible
    from athe_tf.saving.saved_model import export

    mixed = any(layer.dtype_policy.name.startswith("mixed") for layer in net.layers)
    net = convertible(net) if mixed else net  # in float32
    card = export(net, config.output, margin=settings.get("margin"))
    alone = card["head"] in ("unknown", "ensemble")
    endpoints = "endpoint serve" if alone else "endpoints serve and features"
    return f"{endpoints}, {card['num_classes']} classes, head {card['head']}."


def _write_properties(model, config: ExportConfig, settings: dict) -> str:
    """Writes a folder for a verifier, and returns what to tell the user."""
    from athe_tf.conversion.vnnlib import INSTANCES, write_properties

    config = fill_from_run(config, settings)
    check(config.dataset is not None, "Name the images to verify: --dataset=cifar10.")
    check(config.norm == "linf", f"Properties are balls in linf. Received: --norm={config.norm}. Use linf.")
    source = load_images(config, "test")[0]
    check(
        all(0 <= number < len(source) for number in config.examples),
        f"--examples are numbers of the {len(source)} test images, from 0. Received: "
        f"--examples={','.join(map(str, config.examples))}. Use smaller ones.",
    )
    images, labels = source.arrays(max(config.examples) + 1)
    chosen, ids = list(config.examples), config.examples
    with stderr_held_back(lambda: False):
        kept = write_properties(
            model,
            pathlib.Path(config.output),
            images[chosen],
            labels[chosen],
            ids,
            float(config.epsilon or 0),
        )
    left = len(ids) - len(kept)
    wrong = f" {left} images are misclassified, and have none." if left else ""
    return (
        f"{len(kept)} properties with the radius {config.epsilon:.4g} in linf.{wrong} {INSTANCES} lists them."
    )


def _write_file(net, config: ExportConfig, settings: dict) -> str:
    """Writes a file and its card, and returns what to tell the user."""
    from athe_tf.conversion.converted_file import convert
    from athe_tf.conversion.torch_weights import layout_of
    from athe_tf.models.card import card_path

    images = None
    if config.format == "litert_int8":
        config = fill_from_run(config, settings)
        missing = "Eight bits need images to measure ranges on. Name them: --dataset=cifar10."
        check(config.dataset is not None, missing)
        images = load_images(config, "train")[0].arrays(config.calibration_images)[0]
    with stderr_held_back(lambda: False):  # the converters of TensorFlow print what they do
        card = convert(net, config.output, config.format, margin=settings.get("margin"), images=images)
    layout = f"state dict of the {card['layout']}, " if "layout" in card else ""
    text = f"{layout}{card['num_classes']} classes, head {card['head']}. Card: {card_path(config.output)}."
    if config.format == "torch" and card["scale"] not in (None, 1.0):
        text += f"\nThe scale {card['scale']:g} of the head is on the card: a state dict has no place for it."
    if config.format == "torch" and card["normalization"] is not None and layout_of(net).outside:
        text += "\nThe normalization is on the card: the published class has it outside of its state dict."
    return text


SUMMARY = "writes a classifier as a SavedModel, or for PyTorch, ONNX or LiteRT."
main = Program("bin/export", SUMMARY, EXAMPLES, ExportConfig, action).run

if __name__ == "__main__":
    main()
