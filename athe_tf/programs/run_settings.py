"""What programs take from the training run of a model where their flags do not say it, and their images.

All programs that look at images of a run prepare them in this way, so they see what the model was trained on.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from athe_tf import data
from athe_tf.programs.command_line import as_started, warn
from athe_tf.programs.workdir import FROM_RUN, Workdir
from athe_tf.saving import zoo
from athe_tf.saving.model_path import in_zoo
from athe_tf.utils.errors import check

Config = TypeVar("Config")


def known_settings(program: str, model: str, run: Workdir | None) -> dict[str, Any]:
    """What its card in the zoo, or its run, records about the training of a model; empty if it has none.

    The user is told if the run is of another version.

    Args:
        program: The name of the program, such as `bin/evaluate`.
        model: The value of `--model`.
        run: The training run that it belongs to, or `None`.
    """
    if in_zoo(model):
        card = zoo.card(model.removeprefix(zoo.PREFIX))
        return {name: card[name] for name in FROM_RUN if name in card}
    known, remark = ({}, None) if run is None else run.recorded_settings()
    if remark is not None:
        warn(as_started(f"{program}: {remark}"))
    return known


def fill_from_run(
    config: Config, known: Mapping[str, Any], published: Mapping[str, Any] | None = None
) -> Config:
    """Fills in settings that were not given: published ones, those of the model's training run, or defaults.

    A `--resize_size` of the run belongs to its `--image_size`, and is not used with another one.

    Args:
        config: The settings of a program.
        known: What is recorded about the training of the model.
        published: Settings that take precedence over those of the run.
    """
    given = {name for name in FROM_RUN if getattr(config, name, 0) is not None}
    given |= {"resize_size"} if "image_size" in given else set()
    found = {**FROM_RUN, **known, **(published or {})}
    values = {name: found[name] for name in FROM_RUN if name not in given}
    return dataclasses.replace(config, **values)  # type: ignore[type-var]


def load_splits(config, **options):
    """The data set, prepared as the settings and further options of `data.load` say."""
    names = ("data_dir", "image_size", "resize_size", "skip_corrupt")
    return data.load(str(config.dataset), **{name: getattr(config, name) for name in names}, **options)


def load_images(config, split: str) -> tuple[Any, Any]:
    """The images of a part of the data set, prepared as the settings say; and all parts, a `Splits`."""
    splits = load_splits(config)
    images = getattr(splits, split)
    check(images is not None, f"The data set '{config.dataset}' has no {split} images.")
    return images, splits
