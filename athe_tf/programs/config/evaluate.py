"""The settings of bin/evaluate."""

import dataclasses

from athe_tf.attacks.registry import parse_name
from athe_tf.data.names import check_name as check_data_set
from athe_tf.distribution.settings import check_flags
from athe_tf.evaluation.peer_names import TOOLS, check_tools
from athe_tf.evaluation.protocols import PROTOCOLS, get_protocol
from athe_tf.programs.config.fields import CPU_REPLICAS_HELP, DEVICES_HELP, check_name, check_positive, option
from athe_tf.programs.config.rules import check_epsilon
from athe_tf.utils.errors import check


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """An evaluation. What is left out is taken from the training run, where the model comes from one."""

    model: str = option("", "A .keras file, a SavedModel folder, a workdir of bin/train, or module:function.")
    dataset: str | None = option(None, "Data set, as in bin/train. [the run's own]")
    data_dir: str | None = option(None, "Where TensorFlow Datasets keeps its data. [the run's own]")
    image_size: int | None = option(None, "Crop and resize images to this height and width. [the run's own]")
    split: str = option("test", "test, validation or train.")
    protocol: str | None = option(None, f"A named set of attacks: {', '.join(PROTOCOLS)}. [quick]")
    attacks: tuple[str, ...] = option(
        (), "Attacks by name instead, separated by commas; a trailing number is the steps."
    )
    norm: str | None = option(
        None, "Norm of the threat model: linf, l2 or l1. [the protocol's, the run's own, or linf]"
    )
    epsilon: float | None = option(
        None,
        "Radius of the threat model in pixels of [0, 1]. [the protocol's, the run's own, or 8/255]",
    )
    epsilons: tuple[float, ...] = option(
        (), "Further radii, separated by commas: every attack is run at each, for a curve."
    )
    max_examples: int | None = option(None, "Evaluate the first so many images only.")
    batch_size: int = option(128, "Images that go through the model at once, over all devices.")
    seed: int = option(0, "Seed of the attacks.")
    checks: bool = option(
        True, "Fill in the sanity sheet: about 400 passes of 200 images. --nochecks leaves it out."
    )
    verify_with: tuple[str, ...] = option(
        (), f"Repeat FGSM and PGD-20 with other packages, separated by commas: {', '.join(TOOLS)}."
    )
    substitutes: tuple[str, ...] = option((), "Other models for --protocol=transfer, separated by commas.")
    corruptions: str | None = option(
        None,
        "Measure common corruptions too: generated, folder:PATH with the genuine .npy files, or a TensorFlow "
        "Datasets name. [generated with --protocol=corruptions, else none]",
    )
    margin: float | None = option(
        None, "Margin of training of a hypersphere model, for adaptive attacks. [the run's own, or 0.2]"
    )
    probabilities: bool = option(
        False, "The model ends with a softmax that cannot be removed: attack the logarithms, and say so."
    )
    distribution: str = option("auto", "auto, one (device) or mirrored (all GPUs of this machine).")
    devices: tuple[str, ...] = option((), DEVICES_HELP)
    cpu_replicas: int = option(1, CPU_REPLICAS_HELP)
    output: str | None = option(
        None,
        "Folder for evaluation.json, report.html and the rest. The same command, given again after an "
        "interruption, goes on where it was.",
    )

    def __post_init__(self):
        check(
            bool(self.model),
            "Say which model to evaluate: --model=FILE.keras, a SavedModel folder or a workdir.",
        )
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
        for radius in (0.0 if self.epsilon is None else self.epsilon, *self.epsilons):
            check_epsilon(self.norm or "linf", radius)
        check_tools(self.verify_with)
        check(
            self.protocol != "transfer" or len(self.substitutes) > 0,
            "The protocol 'transfer' needs other models to make images on. Name them: "
            "--substitutes=runs/pgd_at,runs/trades.",
        )
        check(self.output != "", "--output= is empty. Name a folder, or leave the flag out.")
        check_name("split", self.split, ("test", "validation", "train"))
        check_flags(self.distribution, self.devices, self.cpu_replicas)
        check_positive(self, "max_examples", "batch_size", "image_size")
