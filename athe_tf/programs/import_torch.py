"""`bin/import_torch`: makes a Keras classifier of a PyTorch checkpoint."""

import dataclasses
import pathlib
from typing import Any

from athe_tf.models.names import ACTIVATIONS, HEADS, check_name
from athe_tf.programs.command_line import Program, print_line, warn_user
from athe_tf.programs.config.fields import flag
from athe_tf.programs.start_tensorflow import start_tensorflow
from athe_tf.utils.errors import check
from athe_tf.utils.files import replacing
from athe_tf.utils.options import check_options, option

EXAMPLES = """
bin/import_torch --checkpoint=trades.pt --arch=wrn-34-10 --output=trades.keras
bin/import_torch --checkpoint=at_he.pt --arch=wrn-34-20 --scale=15 --output=at_he.keras
bin/import_torch --checkpoint=resnet50.safetensors --arch=resnet50 --mean=0.485,0.456,0.406
    --std=0.229,0.224,0.225 --output=resnet50.keras
"""


@dataclasses.dataclass(frozen=True)
class ImportTorchConfig:
    """An import of a PyTorch checkpoint."""

    checkpoint: str = option("", "A file of torch.save or a .safetensors file.")
    arch: str = option("", "The architecture, such as wrn-34-10; docs/models.md lists published checkpoints.")
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
        (), "Mean of the pixels in [0, 1], per channel, if the checkpoint does not have it."
    )
    std: tuple[float, ...] = option((), "Standard deviation of the pixels; goes with --mean.")
    activation: str | None = option(None, "The activation. [silu for dm_wrn, else relu]", choices=ACTIVATIONS)
    image_size: int | None = option(
        None, "Height and width of the images. [224 for ImageNet ResNets, 28 for lenet, else 32]", gt=0
    )

    def __post_init__(self):
        check_options(self, flag)
        check(bool(self.checkpoint), "Specify which checkpoint to import: --checkpoint=FILE.")
        check(bool(self.arch), "Specify which architecture it has: --arch=NAME, such as --arch=wrn-34-10.")
        check(bool(self.output), "Specify where to write: --output=FILE.keras.")
        check_name(self.arch)
        check(
            pathlib.Path(self.output).suffix == ".keras",
            f"--output must end with .keras. Received: --output={self.output}.",
        )
        check(
            bool(self.mean) == bool(self.std),
            "--mean and --std go together. Give both, or neither if the checkpoint has them.",
        )


def action(config: ImportTorchConfig, extra: dict) -> None:
    """Imports the checkpoint that the flags name."""
    output = pathlib.Path(config.output)
    check(not output.exists(), f"'{output}' exists already. Write to another file.")
    found = pathlib.Path(config.checkpoint).is_file()
    check(found, f"There is no file '{config.checkpoint}'. Check --checkpoint.")
    start_tensorflow()
    from athe_tf.conversion.torch_import import import_checkpoint

    settings: dict[str, Any] = {name: value or None for name, value in vars(config).items()}
    del settings["output"]
    imported: Any = import_checkpoint(**settings)
    with replacing(output) as temporary:
        imported.net.save(temporary)
    source = f"entry '{imported.entry}' of {config.checkpoint}" if imported.entry else config.checkpoint
    print_line(f"Imported {source} to {config.output}.\nLayout: {imported.layout.name}.")
    print_line(f"Head: {imported.head}, {imported.net.output_shape[-1]} classes.")
    if imported.normalization is not None:
        mean, std = (", ".join(f"{value:.4g}" for value in part) for part in imported.normalization)
        print_line(f"Normalization inside the model: mean {mean}; std {std}.")
    for remark in _remarks(config, imported):
        warn_user("bin/import_torch", remark)


def _remarks(config: ImportTorchConfig, imported) -> list[str]:
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


SUMMARY = "makes a Keras classifier of a PyTorch checkpoint."
main = Program("bin/import_torch", SUMMARY, EXAMPLES, ImportTorchConfig, action).run

if __name__ == "__main__":
    main()
