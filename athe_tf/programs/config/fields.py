"""What the settings of several programs share."""

import dataclasses
from typing import Any

from athe_tf.distribution.settings import DistributionSettings
from athe_tf.utils.errors import check
from athe_tf.utils.options import option


def flag(name: str) -> str:
    """How messages call a setting."""
    return f"--{name}"


def check_folder(config, name: str) -> None:
    """Raises `InputError` for the name of a folder that is empty."""
    check(getattr(config, name) != "", f"{flag(name)}= is empty. Name a folder, or leave the flag out.")


def picked(config, *names: str) -> dict[str, Any]:
    """Some of the settings, by name."""
    return {name: getattr(config, name) for name in names}


@dataclasses.dataclass(frozen=True)
class ImageOptions:
    """The images to look at. What is left out comes from the training run of the model, if it has one."""

    dataset: str | None = option(None, "Data set, as in bin/train. [the run's own]")
    data_dir: str | None = option(
        None,
        "Where TensorFlow Datasets keeps its data; use only folders that you trust. [the run's own]",
        runtime=True,
    )
    image_size: int | None = option(None, "Crop and resize images to this. [the run's own]", gt=0)
    resize_size: int | None = option(
        None, "Shorter side of an image before the crop. [the run's own with its --image_size]", gt=0
    )
    skip_corrupt: bool = option(False, "Leave out files of folder:PATH that cannot be decoded.")
    split: str = option("test", "Which images.", choices=("test", "validation", "train"))


@dataclasses.dataclass(frozen=True)
class DeviceOptions:
    """The devices and machines. Programs say in their own help which distributions they offer."""

    distribution: str = option("auto", "See docs/distributed.md.", runtime=True)
    devices: tuple[str, ...] = option(
        (), "Numbers of the GPUs to use, such as 0,1; or cpu. [all GPUs, else the CPU]", runtime=True
    )
    cpu_replicas: int = option(
        1, "Split the CPU into this many logical devices, to emulate several GPUs.", runtime=True, ge=1
    )
    worker_timeout: float = option(
        DistributionSettings.worker_timeout, "Seconds to wait for other workers.", runtime=True, gt=0
    )
    deterministic: bool = option(
        False, "The same bits in every run on the same devices, also on GPUs; without TF32.", runtime=True
    )

    def distribution_settings(self) -> DistributionSettings:
        """The devices and machines as the library takes them; raises `InputError` for impossible ones."""
        return DistributionSettings(
            self.distribution,
            self.devices,
            self.cpu_replicas,
            worker_timeout=self.worker_timeout,
            deterministic=self.deterministic,
        )
