"""`bin/import`: makes a Keras classifier of an ONNX or LiteRT file, a PyTorch checkpoint or a PyTorch
module.
"""

import dataclasses
import pathlib
from typing import Any

from athe_tf.models.names import ACTIVATIONS, HEADS, check_name
from athe_tf.programs.command_line import Program, print_line, warn_user
from athe_tf.programs.config.fields import flag
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.utils.choices import RUNTIME_SUFFIXES, check_input_range, check_statistics
from athe_tf.utils.errors import check
from athe_tf.utils.files import replacing
from athe_tf.utils.options import check_options, option
from athe_tf.utils.registry import is_import_path

EXAMPLES = """
bin/import --model=net.onnx --output=net.keras
bin/import --checkpoint=trades.pt --arch=wrn-34-10 --output=trades.keras
bin/import --checkpoint=at_he.pt --arch=wrn-34-20 --scale=15 --output=at_he.keras
bin/import --checkpoint=net.pt --arch=my_twin:build --output=net.keras
bin/import --checkpoint=net.pt --torch_module=my_net:Net --mean=0.485,0.456,0.406
    --std=0.229,0.224,0.225 --output=net.keras
"""


@dataclasses.dataclass(frozen=True)
class ImportConfig:
    """An import of a model from another library."""

    model: str = option("", "An .onnx or .tflite file.")
    checkpoint: str = option("", "A file of torch.save or a .safetensors file.")
    arch: str = option(
        "",
        "The architecture of the checkpoint, such as wrn-34-10 (docs/models.md lists published ones), or "
        "module:build, a Keras twin that takes the weights in order and by shape.",
    )
    torch_module: str = option(
        "", "A torch.nn.Module as module:build, converted with its own weights or those of --checkpoint."
    )
    output: str = option("", "The .keras file to write; must not exist yet.")
    entry: str | None = option(
        None, "The entry of a training checkpoint with several sets of weights, such as ema. [the only one]"
    )
    head: str | None = option(None, "The head. [linear if the last layer has a bias, else he]", choices=HEADS)
    scale: float = option(
        1.0,
        "The scale s of a hypersphere head, which releases of HE leave out; they were trained with 15.",
        gt=0,
    )
    mean: tuple[float, ...] = option(
        (),
        "Mean of the pixels, per channel, if the model expects normalized images and does not do it itself.",
    )
    std: tuple[float, ...] = option((), "Standard deviation of the pixels; goes with --mean.")
    input_range: tuple[float, ...] = option((), "Pixel values that the network expects, such as 0,255. [0,1]")
    activation: str | None = option(None, "The activation. [silu for dm_wrn, else relu]", choices=ACTIVATIONS)
    image_size: int | None = option(
        None, "Height and width of the images. [224 for ImageNet ResNets, 28 for lenet, else 32]", gt=0
    )

    def __post_init__(self):
        check_options(self, flag)
        named = [self.model, self.arch, self.torch_module]
        check(
            any(named) or bool(self.checkpoint),
            "Specify which checkpoint to import: --checkpoint=FILE; or --model=FILE.onnx; or --torch_module.",
        )
        check(
            sum(map(bool, named)) == 1 and not (self.model and self.checkpoint),
            "Specify which architecture it has: --arch=NAME, such as --arch=wrn-34-10, "
            "--arch=module:build for a "
            "Keras twin, or --torch_module=module:build for the module itself; or --model=FILE.onnx alone.",
        )
        check(
            not self.arch or bool(self.checkpoint), f"Give the weights of '{self.arch}': --checkpoint=FILE."
        )
        check(bool(self.output), "Specify where to write: --output=FILE.keras.")
        suffix = pathlib.Path(self.model).suffix
        check(
            not self.model or suffix in RUNTIME_SUFFIXES,
            f"--model is an .onnx or .tflite file. Received: --model={self.model}. A PyTorch checkpoint is "
            "--checkpoint=FILE --arch=NAME.",
        )
        if self.arch:
            check_name(self.arch)
        for name in ("torch_module",) if self.torch_module else ():
            check(
                is_import_path(self.torch_module),
                f"--{name} must be module:build. Received: {self.torch_module}.",
            )
        if self.input_range:
            check_input_range(self.input_range, "--input_range")
        check(
            pathlib.Path(self.output).suffix == ".keras",
            f"--output must end with .keras. Received: --output={self.output}.",
        )
        check(
            bool(self.mean) == bool(self.std),
            "--mean and --std go together. Give both, or neither if the checkpoint has them.",
        )
        check_statistics(self.mean, self.std)


def action(config: ImportConfig, extra: dict) -> None:
    """Imports what the flags name."""
    output = pathlib.Path(config.output)
    check(not output.exists(), f"'{output}' exists already. Write to another file.")
    for name in ("checkpoint", "model"):
        file = getattr(config, name)
        check(not file or pathlib.Path(file).is_file(), f"There is no file '{file}'. Check --{name}.")
    start_tensorflow()
    (_from_checkpoint if config.arch else _from_graph)(config)


def _from_graph(config: ImportConfig) -> None:
    """Imports an ONNX or LiteRT file, or a PyTorch module."""
    from athe_tf.conversion.runtime_model import import_file
    from athe_tf.conversion.torch_module import import_torch_module

    if config.torch_module:
        chosen: dict[str, Any] = {
            "checkpoint": config.checkpoint,
            "entry": config.entry,
            "image_size": config.image_size,
        }
        imported, judge = import_torch_module(config.torch_module, **chosen), "PyTorch"
    else:
        imported = import_file(config.model)
        judge = "onnxruntime" if config.model.endswith(".onnx") else "LiteRT"
    net = _written(config, imported.net, {"difference": imported.difference})
    print_line(f"Imported {config.torch_module or config.model} to {config.output}.")
    print_line(f"{net.output_shape[-1]} classes, images of shape {net.input_shape[1:]}.")
    print_line(
        f"Compared with {judge} on random images: logits differ by {imported.difference:.2g} of their spread."
    )


def _written(config: ImportConfig, net, facts: dict | None = None):
    """Writes a model that takes images in [0, 1], and its card; returns it."""
    from athe_tf.models.adapters import with_input_range
    from athe_tf.models.card import describe, write_card

    if config.input_range or (facts is not None and config.mean):
        statistics = {"mean": config.mean, "std": config.std} if facts is not None else {}
        net = with_input_range(net, config.input_range or (0.0, 1.0), **statistics)
    with replacing(pathlib.Path(config.output)) as temporary:
        net.save(temporary)
    source = config.model or config.torch_module or config.arch
    write_card(config.output, {**describe(net), "source": source, **(facts or {})})
    return net


def _from_checkpoint(config: ImportConfig) -> None:
    """Imports the weights of a published network, or of one with a Keras twin."""
    from athe_tf.conversion.torch_import import import_checkpoint

    other = ("output", "model", "torch_module", "input_range")
    settings: dict[str, Any] = {
        name: value or None for name, value in vars(config).items() if name not in other
    }
    imported: Any = import_checkpoint(**settings)
    _written(config, imported.net)
    source = f"entry '{imported.entry}' of {config.checkpoint}" if imported.entry else config.checkpoint
    print_line(f"Imported {source} to {config.output}.\nLayout: {imported.layout.name}.")
    print_line(f"Head: {imported.head}, {imported.net.output_shape[-1]} classes.")
    if imported.normalization is not None:
        mean, std = (", ".join(f"{value:.4g}" for value in part) for part in imported.normalization)
        print_line(f"Normalization inside the model: mean {mean}; std {std}.")
    for remark in _remarks(config, imported):
        warn_user("bin/import", remark)


def _remarks(config: ImportConfig, imported) -> list[str]:
    """What a user should check."""
    remarks = []
    if imported.normalization is None and imported.layout.outside:
        remarks.append(
            "The model does not normalize its input. The published code does so outside of its state dict "
            f"({imported.layout.outside}): give --mean and --std unless yours was trained without."
        )
    if imported.head in ("fn", "he", "mhe") and config.scale == 1:
        remarks.append(
            "The logits are plain cosines, on which cross-entropy attacks are weak. Give the scale of "
            "training, such as --scale=15; predictions stay the same."
        )
    return remarks


SUMMARY = "makes a Keras classifier of an ONNX or LiteRT file, or of a PyTorch network."
main = Program("bin/import", SUMMARY, EXAMPLES, ImportConfig, action).run

if __name__ == "__main__":
    main()
