"""The settings of bin/import_torch."""

import dataclasses
import pathlib

from athe_tf.models.names import ACTIVATIONS, HEADS, check_name
from athe_tf.programs.config.fields import flag
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option


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
        above=0,
    )
    mean: tuple[float, ...] = option(
        (), "Mean of the pixels in [0, 1], per channel, if the checkpoint does not have it."
    )
    std: tuple[float, ...] = option((), "Standard deviation of the pixels; goes with --mean.")
    activation: str | None = option(None, "The activation. [silu for dm_wrn, else relu]", choices=ACTIVATIONS)
    image_size: int | None = option(
        None, "Height and width of the images. [224 for ImageNet ResNets, 28 for lenet, else 32]", above=0
    )

    def __post_init__(self):
        check_options(self, flag)
        check(bool(self.checkpoint), "Say which checkpoint to import: --checkpoint=FILE.")
        check(bool(self.arch), "Say which architecture it has: --arch=NAME, such as --arch=wrn-34-10.")
        check(bool(self.output), "Say where to write: --output=FILE.keras.")
        check_name(self.arch)
        check(
            pathlib.Path(self.output).suffix == ".keras",
            f"--output must end with .keras. Received: --output={self.output}.",
        )
        check(
            bool(self.mean) == bool(self.std),
            "--mean and --std go together. Give both, or neither if the checkpoint has them.",
        )
