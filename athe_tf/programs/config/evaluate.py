"""The settings of bin/evaluate."""

import dataclasses
import pathlib

from athe_tf.attacks.registry import parse_name
from athe_tf.data.names import check_name as check_data_set
from athe_tf.evaluation.options import CommonOptions, check_peers
from athe_tf.evaluation.protocols import get_protocol
from athe_tf.jobs.shard import Shard
from athe_tf.programs.config.fields import DeviceOptions, ImageOptions, check_folder, flag
from athe_tf.report.gate import GateOptions
from athe_tf.results.file_format import LessCommonOptions
from athe_tf.utils.choices import (
    RUNTIME_SUFFIXES,
    check_epsilon,
    check_input_range,
    check_statistics,
    parse_logit_scale,
    parse_threat_models,
)
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, listed, option, with_help


@dataclasses.dataclass(frozen=True)
class EvaluatedModel:
    """The model to evaluate."""

    model: str = option(
        "",
        "A .keras file, a SavedModel folder, a workdir of bin/train, zoo:NAME, module:function, or an .onnx "
        "or .tflite file.",
    )
    parent: str | None = option(
        None,
        "For an .onnx or .tflite file: the .keras file or workdir that it was made of; attacks use its "
        "gradients.",
    )
    input_range: tuple[float, ...] = option((), "Pixel values that the model expects, such as 0,255. [0,1]")
    mean: tuple[float, ...] = option(
        (), "Mean of the pixels per channel, if the model expects normalized images, such as 0.49,0.48,0.45."
    )
    std: tuple[float, ...] = option((), "Standard deviation of the pixels per channel; goes with --mean.")


@listed
@dataclasses.dataclass(frozen=True)
class EvaluateConfig(
    GateOptions, DeviceOptions, LessCommonOptions, CommonOptions, ImageOptions, EvaluatedModel
):
    """An evaluation. Settings that are left out come from the training run of the model, if it has one."""

    substitutes: tuple[str, ...] = option(
        (), "Other models for --protocol=transfer, separated by commas.", after="verify_with"
    )
    class_names: tuple[str, ...] = option(
        (), "Names of the classes for the report, separated by commas. [those of the data set]"
    )
    distribution: str = with_help(
        DeviceOptions,
        "distribution",
        "auto, one (device), mirrored (all GPUs of this machine) or multi_worker (TF_CONFIG or Slurm); see "
        "docs/distributed.md.",
    )
    worker_timeout: float = with_help(
        DeviceOptions,
        "worker_timeout",
        "Seconds that the first worker waits for a heartbeat of another, when its own images are done.",
    )
    shard: str | None = option(
        None,
        "Attack only a share of the images, such as 3/8: the third of eight. bin/report --merge joins them.",
        runtime=True,
    )
    output: str | None = option(
        None,
        "Folder for evaluation.json, report.html and the rest. After an interruption, the same command "
        "resumes the evaluation.",
        runtime=True,
    )

    @property
    def is_converted(self) -> bool:
        """Whether the model is a file for another runtime."""
        return pathlib.PurePath(self.model).suffix in RUNTIME_SUFFIXES

    def __post_init__(self):
        check(
            bool(self.model),
            "Specify which model to evaluate: --model=FILE.keras, a SavedModel folder or a workdir.",
        )
        check_folder(self, "output")
        check_options(self, flag)
        self._check_converted()
        if self.input_range:
            check_input_range(self.input_range, "--input_range")
        check_statistics(self.mean, self.std)
        if self.dataset is not None:
            check_data_set(self.dataset)
        check(
            self.protocol is None or not self.attacks,
            f"Give either --protocol or --attacks. Received: --protocol={self.protocol} "
            f"--attacks={','.join(self.attacks)}.",
        )
        if self.protocol is not None:
            get_protocol(self.protocol)
        for name in self.attacks:
            parse_name(name)
        parse_logit_scale(self.logit_scale, "--logit_scale")
        for radius in (0.0 if self.epsilon is None else self.epsilon, *self.epsilons):
            check_epsilon(self.norm or "linf", radius, "--epsilon")
        parse_threat_models(self.norms, self.norm, self.epsilon, "--norms")
        check_peers(self.verify_with)
        check(
            self.protocol != "transfer" or len(self.substitutes) > 0,
            "The protocol 'transfer' needs other models to make images on. Name them: "
            "--substitutes=runs/pgd_at,runs/trades.",
        )
        self.distribution_settings()
        self.check_gate()
        check(
            self.shard is None or not (self.require or self.max_drop is not None),
            "A shard has only a part of the images, which cannot meet a requirement. Received: "
            f"--shard={self.shard} with --require or --max_drop. Give them to bin/report --merge.",
        )
        if self.shard is not None:
            Shard.parse(self.shard, "--shard")
        check(
            self.shard is None or self.output is not None,
            f"A shard is kept in a folder until all of them are merged. Received: --shard={self.shard} "
            "without --output. Name the same --output for all shards.",
        )
        check(
            self.shard is None or self.distribution != "multi_worker",
            "The images are divided either by --shard or among the workers of "
            f"--distribution=multi_worker. Received both: --shard={self.shard}. Leave one of them out.",
        )

    def _check_converted(self) -> None:
        names = " or ".join(RUNTIME_SUFFIXES)
        check(
            self.parent is None or self.is_converted,
            f"--parent belongs to a model file that ends with {names}. Received: --model={self.model}. Leave "
            "it out.",
        )
        check(
            self.parent is None or pathlib.PurePath(self.parent).suffix not in RUNTIME_SUFFIXES,
            f"--parent must have gradients. Received: --parent={self.parent}. Give the .keras file that "
            f"'{self.model}' was made of.",
        )
        check(
            self.protocol is None or self.parent is not None or not str(self.model).endswith(".tflite"),
            "A LiteRT file has no gradients, which protocols need. Received: "
            f"--protocol={self.protocol}. Give --parent, or name attacks that need outputs only, such as "
            "--attacks=square,rays.",
        )
        check(
            self.protocol is None or self.parent is None,
            f"With --parent, attacks follow the parent's gradients by a list of their own. Received: "
            f"--protocol={self.protocol}. Leave --parent out, or name --attacks.",
        )
