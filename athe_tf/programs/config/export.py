"""The settings of bin/export."""

import dataclasses
import pathlib

from athe_tf.programs.config.fields import flag
from athe_tf.utils.choices import EXPORT_SUFFIXES
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option


@dataclasses.dataclass(frozen=True)
class ExportConfig:
    """An export to a SavedModel or to a file for another runtime."""

    model: str = option("", "A .keras file, a workdir of bin/train, or zoo:NAME.")
    output: str = option(
        "",
        "What to write; must not exist yet. A folder for saved_model, else a file: .pt, .pth or .safetensors "
        "for torch, .onnx for onnx, .tflite for litert and litert_int8.",
    )
    format: str = option("saved_model", "The format.", choices=tuple(EXPORT_SUFFIXES))
    dataset: str | None = option(
        None, "Where litert_int8 takes images from, to measure ranges of activations. [the training run's]"
    )
    data_dir: str | None = option(None, "Folder of prepared data sets. [the training run's]")
    calibration_images: int = option(200, "How many training images litert_int8 takes.", above=0)

    def __post_init__(self):
        check_options(self, flag)
        check(bool(self.model), "Say which model to export: --model=FILE.keras or a workdir.")
        suffixes = EXPORT_SUFFIXES[self.format]
        if not suffixes:
            check(bool(self.output), "Say where to write: --output=FOLDER.")
        else:
            check(bool(self.output), f"Say where to write: --output=FILE{suffixes[0]}.")
            check(
                pathlib.Path(self.output).suffix in suffixes,
                f"--format={self.format} writes a file that ends with {' or '.join(suffixes)}. Received: "
                f"--output={self.output}.",
            )
