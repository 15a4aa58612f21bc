"""The settings of bin/evaluate."""

import dataclasses
import pathlib

from athe_tf.attacks.registry import parse_name
from athe_tf.data.names import check_name as check_data_set
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.evaluation.options import PEERS, check_peers
from athe_tf.evaluation.protocols import PROTOCOLS, get_protocol
from athe_tf.jobs.shard import Shard
from athe_tf.programs.config.fields import (
    cpu_replicas_option,
    devices_option,
    distribution_option,
    flag,
    seed_option,
    worker_timeout_option,
)
from athe_tf.utils.choices import NORMS, RUNTIME_SUFFIXES, check_epsilon, check_input_range, parse_logit_scale
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """An evaluation. Settings that are left out come from the training run of the model, if it has one."""

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
    dataset: str | None = option(None, "Data set, as in bin/train. [the run's own]")
    data_dir: str | None = option(
        None,
        "Where TensorFlow Datasets keeps its data; use only folders that you trust. [the run's own]",
        runtime=True,
    )
    image_size: int | None = option(None, "Crop and resize images to this. [the run's own]", above=0)
    resize_size: int | None = option(
        None, "Shorter side of an image before the crop. [the run's own with its --image_size]", above=0
    )
    skip_corrupt: bool = option(False, "Leave out files of folder:PATH that cannot be decoded.")
    split: str = option("test", "Which images.", choices=("test", "validation", "train"))
    protocol: str | None = option(None, f"A named set of attacks: {', '.join(PROTOCOLS)}. [quick]")
    attacks: tuple[str, ...] = option((), "Attacks by name instead, such as fgsm,pgd-20.")
    norm: str | None = option(None, "Norm. [the protocol's, the run's own, or linf]", choices=NORMS)
    epsilon: float | None = option(None, "Radius. [the protocol's, the run's own, or 8/255]")
    epsilons: tuple[float, ...] = option((), "Further radii for every attack, for a curve.")
    max_examples: int | None = option(None, "Evaluate only the first N images.", above=0)
    max_passes: int | None = option(
        None, "Stop each attack on an image after this many forward and backward passes.", above=0
    )
    batch_size: int = option(128, "Images that go through the model at once, over all devices.", above=0)
    seed: int = seed_option("Seed of the attacks.")
    checks: bool = option(True, "Run the sanity checks: about 400 passes of 200 images.")
    verify_with: tuple[str, ...] = option((), f"Repeat FGSM and PGD-20 with: {', '.join(PEERS)}.")
    substitutes: tuple[str, ...] = option((), "Other models for --protocol=transfer, separated by commas.")
    corruptions: str | None = option(
        None,
        "Also measure common corruptions: generated, folder:PATH with the genuine .npy or JPEG files, or a "
        "TensorFlow Datasets name. [generated with --protocol=corruptions, else none]",
    )
    corruption_resize: int | None = option(
        None, "Resize JPEG files of ImageNet-C to this before the crop; 256 in the HE paper's code.", above=0
    )
    margin: float | None = option(None, "Margin of training, for adaptive attacks. [the run's own]")
    logit_scale: str = option(
        "model", "Scale of hypersphere logits for attacks that depend on it: model, or a number."
    )
    probabilities: bool = option(False, "Attack the logarithms of a softmax that cannot be removed.")
    distribution: str = distribution_option(
        "auto, one (device), mirrored (all GPUs of this machine) or multi_worker (TF_CONFIG or Slurm)"
    )
    devices: tuple[str, ...] = devices_option()
    cpu_replicas: int = cpu_replicas_option()
    worker_timeout: float = worker_timeout_option(
        "Seconds that the first worker waits for a sign of life of another, when its own images are done."
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
        """Whether the model is a file for another runtime, which has no gradients."""
        return pathlib.PurePath(self.model).suffix in RUNTIME_SUFFIXES

    def __post_init__(self):
        check(
            bool(self.model),
            "Say which model to evaluate: --model=FILE.keras, a SavedModel folder or a workdir.",
        )
        check(self.output != "", "--output= is empty. Name a folder, or leave the flag out.")
        check_options(self, flag)
        self._check_converted()
        if self.input_range:
            check_input_range(self.input_range, "--input_range")
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
        check_peers(self.verify_with)
        check(
            self.protocol != "transfer" or len(self.substitutes) > 0,
            "The protocol 'transfer' needs other models to make images on. Name them: "
            "--substitutes=runs/pgd_at,runs/trades.",
        )
        DistributionSettings(self.distribution, self.devices, self.cpu_replicas)
        self._check_shard()

    def _check_shard(self) -> None:
        if self.shard is None:
            return
        Shard.parse(self.shard, "--shard")
        check(
            self.output is not None,
            f"A shard is kept in a folder until all of them are merged. Received: --shard={self.shard} "
            "without --output. Name the same --output for all shards.",
        )
        check(
            self.distribution != "multi_worker",
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
            self.protocol is None or not self.is_converted,
            f"A file that ends with {names} has no gradients, which protocols need. Received: "
            f"--protocol={self.protocol}. Give --parent, or name attacks that need outputs only, such as "
            "--attacks=square,rays.",
        )
