"""The settings of bin/train.

They are dataclasses, one per group of flags. Options of the attack, the frameworks and the training step
are described where they belong, in `attacks/options.py` and `training/options.py`.
"""

import dataclasses
import functools
from typing import Any

from athe_tf.attacks.registry import AttackOptions, parse_name
from athe_tf.data.names import AUGMENTATIONS
from athe_tf.data.names import check_name as check_data_set
from athe_tf.data.options import AugmentationOptions
from athe_tf.models import names as models
from athe_tf.programs.config import rules
from athe_tf.programs.config.fields import DeviceOptions, check_folder, flag
from athe_tf.training import options as training
from athe_tf.utils.choices import MARGIN_FORMS, WEIGHT_NORMS, check_epsilon, parse_logit_scale
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, make_options, option, seed_option, values_of, with_help

PRECISIONS = ("float32", "float64", "mixed_float16", "mixed_bfloat16")


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """The data."""

    dataset: str = option("digits", "Data set: digits, npz:PATH, folder:PATH or a TensorFlow Datasets name.")
    data_dir: str | None = option(
        None, "Where TensorFlow Datasets keeps its data; use only folders that you trust.", runtime=True
    )
    image_size: int | None = option(None, "Crop and resize images to this height and width.", gt=0)
    resize_size: int | None = option(
        None,
        "Resize the shorter side of test images to this, such as 256, before the crop of --image_size. "
        "[crop the largest square, then resize it]",
        gt=0,
    )
    skip_corrupt: bool = option(
        False, "Leave out files of folder:PATH that cannot be decoded; decodes all of them once to find out."
    )
    validation_size: int | None = option(None, "Images held out. [a tenth, at most 1000]", ge=0)
    max_train_examples: int | None = option(
        None, "Train on a random part of this many images, to try a recipe. [all]", gt=0
    )
    augmentation: str = option(
        "pad_crop_flip",
        "Augmentation; random_resized_crop_flip is ImageNet's, and crops the original images.",
        choices=tuple(AUGMENTATIONS),
    )
    extra_data: str | None = option(
        None,
        "Files with more training images, separated by commas: .npz with `image` and `label`, or NAME.npy "
        "beside NAME.label.npy. What is not compressed is read as needed, and can be larger than the memory.",
    )
    extra_fraction: float = option(0.7, "The share of --extra_data in every batch.", gt=0, le=1)
    extra_later: tuple[float, ...] = option(
        (), "An epoch, and the share of --extra_data from then on, such as 6000,0.875."
    )
    extra_smoothing: float = option(0.0, "Label smoothing of the images of --extra_data only.", ge=0, lt=1)
    extra_labels_by: str | None = option(None, "A .keras file that labels --extra_data. [its own labels]")


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The model, and the framework that trains it."""

    model: str = option(
        "small_cnn",
        "Model, such as wrn-34-10 or preact_resnet18; module:function; or FILE.keras, with its weights.",
    )
    input_range: tuple[float, ...] = option(
        (), "Pixel values that a model of module:function or FILE.keras expects, such as 0,255. [0,1]"
    )
    head: str = option("linear", "Head; he is the hypersphere, mhe its angular form.", choices=models.HEADS)
    scale: float = option(15.0, "Scale s of the hypersphere heads.", gt=0)
    margin: float | None = option(None, "Margin m. [0.2 for he, 0.1 for mhe, else 0]", ge=0)
    margin_form: str | None = option(
        None, "Form of the margin; arc is ArcFace's. [angle for mhe, else cosine]", choices=MARGIN_FORMS
    )
    weight_norm: str = option("differentiable", "Normalization of class weights.", choices=WEIGHT_NORMS)
    activation: str = option("relu", "Activation.", choices=models.ACTIVATIONS)
    bn_momentum: float = option(0.9, "Share of old moving statistics that an update keeps.", ge=0, lt=1)
    standardize: bool = option(True, "The model normalizes inputs by mean and deviation of the data set.")
    initial_model: str | None = option(
        None,
        "Start from the weights of this .keras file or workdir; --head=he and mhe replace a linear head.",
    )
    freeze: str | None = option(
        None, "Do not train the layers whose names match this regular expression, such as 'group[12]_.*'."
    )
    framework: str = option("pgd_at", f"Framework: {', '.join(training.FRAMEWORKS)}, or module:Name.")
    options: dict[str, Any] = dataclasses.field(
        default_factory=dict, metadata={"help": "Options of the framework that were given.", "flag": False}
    )


@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    """The optimizer."""

    optimizer: str = option(
        "sgd",
        "Optimizer: sgd (PyTorch's), or one of Keras; with arguments as a call, such as adamw(beta_2=0.95).",
    )
    learning_rate: float = option(0.1, "Learning rate at its highest.", gt=0)
    lr_schedule: str = option("piecewise", "Schedule of the learning rate.", choices=training.LR_SCHEDULES)
    lr_drops: tuple[float, ...] = option((75.0, 90.0), "Epochs after which a piecewise rate drops.")
    lr_drop_factor: float = option(0.1, "Factor of each drop.", gt=0)
    lr_warmup: float = option(0.0, "Epochs of a linear rise before the schedule begins.", ge=0)
    lr_start_factor: float | None = option(
        None,
        "First rate of one_cycle or --lr_warmup, in units of --learning_rate. [1/25; 0 of --lr_warmup]",
        ge=0,
        le=1,
    )
    lr_end_factor: float = option(
        1e-4 / 25, "Last rate of one_cycle, in units of --learning_rate.", ge=0, le=1
    )
    lr_rise: float = option(0.3, "Share of one_cycle before its peak.", gt=0, lt=1)
    lr_min: float = option(0.0, "Where cosine and piecewise rates end.", ge=0)
    lr_per_epoch: bool = option(False, "Change the rate once per epoch instead of once per update.")
    momentum_range: tuple[float, ...] = option(
        (0.85, 0.95), "Momentum of sgd at the peak and the ends of one_cycle; empty: --momentum throughout."
    )
    lr_resets: tuple[float, ...] = option((), "Epochs after which learning rate and epsilon restart.")
    ensemble: bool = option(False, "Save an ensemble of the models at the end of each period.")
    momentum: float = option(0.9, "Momentum of sgd.", ge=0, lt=1)
    nesterov: bool = option(False, "Nesterov's momentum.")
    weight_decay: float = option(2e-4, "Weight decay; coupled in sgd.", ge=0)
    decay_variables: str = option("all", "Variables that decay.", choices=tuple(training.NO_DECAY))
    precision: str = option(
        "float32",
        "Dtype policy. Mixed ones need a GPU, a TPU or a processor where they are faster; see --plan.",
        choices=PRECISIONS,
    )
    jit_compile: bool = option(False, "Compile the training step with XLA; for accelerators, slow on CPUs.")
    epochs: int = option(100, "Passes over the training images.", gt=0)
    batch_size: int = option(128, "Images per step, over all devices.", gt=0)
    early_stopping: int | None = option(None, "Stop after N epochs without improvement. [never]", gt=0)
    guard_drop: float | None = option(
        None,
        "Stop, and restore the previous epoch, if the accuracy of a training batch under PGD-5 drops by more "
        "than this within an epoch; 0 disables it. [0.2 for fast_at, n_fgsm and gradalign, else 0]",
        ge=0,
        lt=1,
    )
    sync_batch_norm: bool = option(True, "Replicas share the statistics of batch normalization.")


@dataclasses.dataclass(frozen=True)
class ValidationOptions:
    """The validation, and the seed."""

    validation_attack: str = option(
        "pgd-10",
        "Attack of the robust validation accuracy, which chooses the best epoch; swift, in a short form, is "
        "stronger and takes about nine times as many passes.",
    )
    seed: int = seed_option("Seed of initialization, order, augmentation and attack starts.")


@dataclasses.dataclass(frozen=True)
class RunOptions(DeviceOptions, ValidationOptions):
    """The run."""

    distribution: str = with_help(
        DeviceOptions,
        "distribution",
        "auto, one (device), mirrored (the GPUs of this machine), multi_worker (TF_CONFIG or Slurm) or tpu; "
        "see docs/distributed.md.",
    )
    worker_timeout: float = with_help(
        DeviceOptions, "worker_timeout", "Seconds that workers wait for each other at the start."
    )
    backup_minutes: float = option(
        10.0, "Minutes between backups; one is also written at the end of every epoch.", runtime=True, ge=0
    )
    tensorboard: bool = option(
        False,
        "Log metrics, adversarial examples and angles to WORKDIR/tensorboard, for TensorBoard.",
        runtime=True,
    )
    exact_resume: bool = option(
        False,
        "Refuse to resume a run on another number of cores or threads, device, oneDNN setting or version, "
        "after which its weights are not bit-identical.",
        runtime=True,
    )
    workdir: str | None = option(None, "Folder of the run. The same command resumes it.", runtime=True)


# Python lists the fields of the last base first.
@dataclasses.dataclass(frozen=True)
class TrainConfig(
    RunOptions,
    training.AverageOptions,
    OptimizerOptions,
    training.EpsilonOptions,
    AttackOptions,
    training.PerturbationOptions,
    training.SharedOptions,
    ModelOptions,
    AugmentationOptions,
    DataOptions,
):
    """A training run. The defaults are from HE's CIFAR-10 tables, with a small model."""

    def __post_init__(self):
        check_folder(self, "workdir")
        check_options(self, flag)
        check_data_set(self.dataset)
        models.check_name(self.model)
        check_epsilon(self.norm, self.epsilon, "--epsilon")
        check(
            not parse_name(self.validation_attack)[0].startswith("autoattack"),
            "AutoAttack takes too long to run after every epoch; it is for bin/evaluate. Received: "
            f"--validation_attack={self.validation_attack}. Use an attack such as pgd-10 or swift.",
        )
        self.distribution_settings()
        rules.check_settings(self)

    @classmethod
    def from_flags(cls, **given) -> "TrainConfig":
        """The config of flags; those that are no fields of it are options of the framework.

        Example:

        >>> TrainConfig.from_flags(framework="trades", beta=3.0).framework_options.beta
        3.0
        """
        own = cls.__dataclass_fields__
        settings = {name: value for name, value in given.items() if name in own}
        return cls(**settings, options={n: v for n, v in given.items() if n not in own})

    @functools.cached_property
    def framework_options(self) -> training.FrameworkOptions:
        """All options of the framework."""
        return make_options(
            training.options_of(self.framework), self.options, f"the framework '{self.framework}'"
        )

    @property
    def stream_settings(self) -> dict[str, Any]:
        """The arguments of `ImageSource.stream` for the training images."""
        settings = {name: getattr(self, name) for name in ("batch_size", "seed", "augmentation")}
        return settings | values_of(AugmentationOptions, self)

    @property
    def period_ends(self) -> tuple[int, ...]:
        """The number of finished epochs at the end of each period."""
        return (*(int(reset) for reset in self.lr_resets), self.epochs)

    @property
    def attack_steps(self) -> int:
        """The attack steps, with the framework's default."""
        return self.framework_options.default_steps if self.steps is None else self.steps

    @property
    def attack_step_size(self) -> float:
        """The step size of the attack, with the framework's default."""
        return self.framework_options.step_size(self.epsilon) if self.step_size is None else self.step_size

    @property
    def guarded_drop(self) -> float:
        """The drop in accuracy that counts as catastrophic overfitting; 0 disables the guard."""
        return self.framework_options.guard_drop if self.guard_drop is None else self.guard_drop

    @property
    def training_margin(self) -> float:
        """The margin, with the paper's default for each head."""
        return models.HEAD_MARGINS.get(self.head, 0.0) if self.margin is None else self.margin

    @property
    def attack_scale(self):
        """`logit_scale` as attacks take it."""
        return parse_logit_scale(self.logit_scale, "--logit_scale")
