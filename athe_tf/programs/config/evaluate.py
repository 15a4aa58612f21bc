"""The settings of bin/evaluate."""

import dataclasses

from athe_tf.attacks.registry import parse_name
from athe_tf.data.names import check_name as check_data_set
from athe_tf.distribution.settings import DistributionSettings
from athe_tf.evaluation.options import PEERS, check_peers
from athe_tf.evaluation.protocols import PROTOCOLS, get_protocol
from athe_tf.programs.config.fields import (
    cpu_replicas_option,
    devices_option,
    distribution_option,
    flag,
    seed_option,
)
from athe_tf.utils.choices import NORMS, check_epsilon, check_input_range, parse_logit_scale
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
        None, "For an .onnx or .tflite file: the .keras file that it was made of, whose gradients attack it."
    )
    input_range: tuple[float, ...] = option((), "Pixel values that the model expects, such as 0,255. [0,1]")
    dataset: str | None = option(None, "Data set, as in bin/train. [the run's own]")
    data_dir: str | None = option(
        None, "Where TensorFlow Datasets keeps its data; use only folders that you trust. [the run's own]"
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
    distribution: str = distribution_option("auto, one (device) or mirrored (all GPUs of this machine)")
    devices: tuple[str, ...] = devices_option()
    cpu_replicas: int = cpu_replicas_option()
    output: str | None = option(
        None,
        "Folder for evaluation.json, report.html and the rest. After an interruption, the same command "
        "resumes the evaluation.",
    )

    def __post_init__(self):
        check(
            bool(self.model),
            "Say which model to evaluate: --model=FILE.keras, a SavedModel folder or a workdir.",
        )
        check(self.output != "", "--output= is empty. Name a folder, or leave the flag out.")
        check_options(self, flag)
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
