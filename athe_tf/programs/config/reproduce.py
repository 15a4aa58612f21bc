"""The settings of bin/reproduce."""

import dataclasses
import re

from athe_tf.programs.config.fields import flag
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option

PRESETS = ("mini", "small", "paper")


@dataclasses.dataclass(frozen=True)
class ReproduceConfig:
    """A table of a paper, to be trained and measured."""

    table: str = option(
        "", "Table: 2 to 10, adaptive, ablation, transfer, time, pas, llr, study or study_one_seed."
    )
    preset: str = option(
        "mini",
        "Budget: mini is for two CPU cores, small for a few hours on one GPU, paper is the full recipe.",
        choices=PRESETS,
    )
    seeds: tuple[str, ...] = option((), "Seeds of the runs, such as 0,1,2. [0,1,2 for mini, else 0]")
    max_examples: int | None = option(
        None, "Evaluate on the first N test images. [500 for mini, 1000 for small, else all]", above=0
    )
    data_dir: str | None = option(
        None, "Where TensorFlow Datasets keeps its data; use only folders that you trust.", runtime=True
    )
    workdir: str | None = option(
        None,
        "Folder of the runs, one subfolder each. The same command resumes them. [runs/reproduce/PRESET]",
        runtime=True,
    )

    def __post_init__(self):
        check(bool(self.table), "Say which table to reproduce, such as --table=2.")
        check(self.workdir != "", "--workdir= is empty. Name a folder, or leave the flag out.")
        check_options(self, flag)
        wrong = [seed for seed in self.seeds if not re.fullmatch(r"\d{1,9}", seed)]
        check(
            not wrong,
            "--seeds are whole numbers that are not negative, separated by commas, such as 0,1,2. "
            f"Received: --seeds={','.join(self.seeds)}.",
        )
        check(
            len({int(seed) for seed in self.seeds}) == len(self.seeds),
            f"Name each seed once. Received: --seeds={','.join(self.seeds)}.",
        )
