"""The settings of bin/train."""

import dataclasses

from athe_tf.attacks.registry import parse_name
from athe_tf.data.augmentations import AUGMENTATIONS
from athe_tf.data.names import check_name as check_data_set
from athe_tf.distribution.settings import check_flags
from athe_tf.models import names as model_names
from athe_tf.programs.config import rules
from athe_tf.programs.config.fields import (
    CPU_REPLICAS_HELP,
    DEVICES_HELP,
    DISTRIBUTION_HELP,
    check_name,
    check_not_negative,
    check_positive,
    option,
)
from athe_tf.programs.config.rules import check_epsilon
from athe_tf.training.registry import FRAMEWORKS
from athe_tf.utils.errors import check
from athe_tf.utils.number_format import parse_number

SCHEDULES = ("constant", "cosine", "cyclic", "multistep", "piecewise")
OPTIMIZERS = ("adam", "sgd")
STARTS = ("gaussian", "uniform", "zero")
BN_MODES = ("eval", "train", "batch_no_update", "frozen_clean")
PAIRING_FORMS = ("l2", "mse")
PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
EPSILON_SCHEDULES = ("constant", "cosine", "linear")
LLR_VARIANTS = ("gamma_only", "grad_norm", "llr")
LLR_PRESETS = ("code", "paper")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A training run. The defaults are those of HE's CIFAR-10 tables, with a small model."""

    # What to learn from.
    dataset: str = option("digits", "Data set: digits, npz:PATH, folder:PATH or a TensorFlow Datasets name.")
    data_dir: str | None = option(None, "Where TensorFlow Datasets keeps its data.", runtime=True)
    image_size: int | None = option(None, "Crop and resize images to this height and width.")
    validation_size: int | None = option(
        None, "Training images held out for validation. [a tenth of them, at most 1000]"
    )
    augmentation: str = option("pad_crop_flip", "none, flip, pad_crop or pad_crop_flip.")
    extra_data: str | None = option(
        None, "An .npz file with more training images, generated or unlabelled ones: `image` and `label`."
    )
    extra_fraction: float = option(0.7, "The share of --extra_data in every batch.")
    extra_labels_by: str | None = option(
        None, "A .keras file whose predictions are the labels of --extra_data. [the file's own labels]"
    )
    # What to train.
    model: str = option("small_cnn", "Model, such as wrn-34-10, preact_resnet18 or small_cnn.")
    head: str = option("linear", "Head: linear, fn, wn, he (hypersphere) or mhe (its angular form).")
    scale: float = option(15.0, "Scale s of the hypersphere heads.")
    margin: float | None = option(None, "Margin m of the hypersphere loss. [0.2 for he, 0.1 for mhe, else 0]")
    weight_norm: str = option(
        "differentiable",
        "How weight normalisation meets the optimiser: differentiable, project or straight_through.",
    )
    activation: str = option("relu", "relu, softplus, silu or leaky_relu.")
    initial_model: str | None = option(
        None, "Begin with the weights of this .keras file or workdir, of the same model. [random ones]"
    )
    # How to train.
    framework: str = option("pgd_at", f"Framework: {', '.join(FRAMEWORKS)}.")
    beta: float = option(6.0, "Weight of the divergence in TRADES and MART.")
    pairing: float = option(0.5, "Weight of the pairing of logits in ALP.")
    pairing_form: str = option("mse", "What ALP pairs by: mse (the released code) or l2 (the paper's text).")
    replays: int = option(8, "Updates that FreeAT makes of each batch; an epoch is one pass over the images.")
    noise_in_box: bool = option(
        False, "Keep FreeAT's noise where image and noise lie in [0, 1], and not only in the ball."
    )
    nfgsm_noise: float = option(
        0.0, "Makes N-FGSM of fast_at: a start within so many epsilons, such as 2, and no projection; 0: not."
    )
    gradalign: float = option(
        0.0, "Makes GradAlign of fast_at: the weight of the alignment of gradients, such as 0.2; 0: not."
    )
    llr_preset: str = option("paper", "Weights and inner steps of LLR: those of the paper or of its code.")
    llr_variant: str = option(
        "llr", "llr, gamma_only (no slope term) or grad_norm (the length of the gradient instead)."
    )
    gamma_weight: float | None = option(None, "Weight of gamma in LLR, the paper's lambda. [the preset's: 4]")
    slope_weight: float | None = option(
        None, "Weight of the slope in LLR, the paper's mu. [the preset's: 3, of the code 1.2]"
    )
    curvature_weight: float = option(4.0, "Weight of the curvature in CURE, the paper's gamma.")
    curvature_step: float = option(1.5, "Euclidean length of the step along which CURE measures curvature.")
    awp_gamma: float = option(
        0.0, "Adversarial weight perturbation of any framework: its share of the weights' length; 0: none."
    )
    awp_start: float = option(0.0, "Epochs before weights are perturbed.")
    guard_drop: float | None = option(
        None,
        "Stop, and go back one epoch, when the accuracy of a training batch under PGD-5 falls by more than "
        "this within an epoch; 0: never. [0.2 for fast_at, else 0]",
    )
    label_smoothing: float = option(0.0, "In the training loss, never in the attack.")
    # The attack inside training.
    norm: str = option("linf", "Norm of the threat model: linf, l2 or l1.")
    epsilon: float = option(
        8 / 255, "Radius of the threat model in pixels of [0, 1]; 8/255 may be written so."
    )
    epsilon_schedule: str = option(
        "constant",
        "The radius in training rises in every period (see --lr_resets): constant, linear, cosine.",
    )
    epsilon_min: float = option(0.0, "Where a schedule begins.")
    epsilon_max: float | None = option(
        None, "Where a schedule would end with the period; it stops at --epsilon. [twice --epsilon]"
    )
    epsilon_warmup: float | None = option(
        None, "Epochs in which a schedule rises to --epsilon, instead of what --epsilon_max says."
    )
    step_size: float | None = option(
        None,
        "Length of an attack step, in proportion to a scheduled epsilon. [1.25 epsilon for fast_at, epsilon "
        "for free_at and N-FGSM, 0.1 for LLR's code, else epsilon/4]",
    )
    steps: int | None = option(None, "Attack steps in training. [1 for fast_at and free_at, else 10]")
    start: str | None = option(None, "Start of the attack: uniform, gaussian or zero. [the framework's own]")
    restarts: int = option(1, "Attack restarts in training.")
    logit_scale: str = option("model", "Scale of the logits that the attack sees: model, or a number.")
    bn_mode: str | None = option(
        None, "Batch norm while crafting: eval, train, batch_no_update or frozen_clean. [the framework's own]"
    )
    validation_attack: str = option("pgd-10", "Attack of the robust validation accuracy.")
    # The optimiser.
    optimizer: str = option("sgd", "sgd (momentum and coupled weight decay, as PyTorch computes it) or adam.")
    learning_rate: float = option(0.1, "Learning rate at its highest.")
    lr_schedule: str = option("piecewise", "constant, piecewise (also multistep), cosine or cyclic.")
    lr_drops: tuple[float, ...] = option((75.0, 90.0), "Epochs after which a piecewise rate drops.")
    lr_drop_factor: float = option(0.1, "Factor of each drop.")
    lr_resets: tuple[float, ...] = option(
        (), "Epochs after which a new period begins: learning rate and epsilon start anew."
    )
    ensemble: bool = option(
        False, "Make one model of those at the end of each period: the mean of their predictions."
    )
    momentum: float = option(0.9, "Momentum of sgd.")
    nesterov: bool = option(False, "Nesterov's momentum.")
    weight_decay: float = option(2e-4, "Weight decay; coupled in sgd.")
    clip_norm: float | None = option(None, "Shorten the gradient of the weights to this length. [never]")
    ema: float = option(
        0.0, "Decay of a moving average of the weights, such as 0.995, which is then validated and exported."
    )
    swa_start: int | None = option(
        None,
        "Epochs after which the weights of every epoch are averaged (SWA); validated and exported. [never]",
    )
    precision: str = option(
        "float32",
        "Of the arithmetic: float32; float64, so that rounding changes no result; mixed_float16 (with loss "
        "scaling) or mixed_bfloat16, for accelerators.",
    )
    epochs: int = option(100, "Passes over the training images.")
    batch_size: int = option(128, "Images a step, over all devices.")
    early_stopping: int | None = option(
        None, "Stop when the best validation accuracy is so many epochs old. [never]"
    )
    sync_batch_norm: bool = option(
        True, "Replicas share the statistics of batch normalisation, so that their number changes no result."
    )
    # The run.
    seed: int = option(0, "Seed of initialisation, order, augmentation and attack starts.")
    distribution: str = option("auto", DISTRIBUTION_HELP, runtime=True)
    devices: tuple[str, ...] = option((), DEVICES_HELP, runtime=True)
    cpu_replicas: int = option(1, CPU_REPLICAS_HELP, runtime=True)
    worker_timeout: float = option(
        300.0, "Seconds that workers wait for each other at the start.", runtime=True
    )
    backup_minutes: float = option(
        10.0, "A backup is written at every epoch's end, and so many minutes after the last.", runtime=True
    )
    workdir: str | None = option(None, "Folder of the run. The same command resumes it.", runtime=True)

    def __post_init__(self):
        check(self.workdir != "", "--workdir= is empty. Name a folder, or leave the flag out.")
        check_data_set(self.dataset)
        AUGMENTATIONS.check(self.augmentation)
        model_names.check_name(self.model)
        model_names.check_head(self.head)
        FRAMEWORKS.check(self.framework)
        check(
            not parse_name(self.validation_attack)[0].startswith("autoattack"),
            "AutoAttack takes too long to run after every epoch; it is for bin/evaluate. "
            f"Received: --validation_attack={self.validation_attack}. Use an attack such as pgd-10.",
        )
        check_epsilon(self.norm, self.epsilon)
        for argument, value, names in (
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("lr_schedule", self.lr_schedule, SCHEDULES),
            ("start", self.start or "uniform", STARTS),
            ("bn_mode", self.bn_mode or "eval", BN_MODES),
            ("weight_norm", self.weight_norm, ("differentiable", "project", "straight_through")),
            ("activation", self.activation, model_names.ACTIVATIONS),
            ("pairing_form", self.pairing_form, PAIRING_FORMS),
            ("precision", self.precision, PRECISIONS),
            ("epsilon_schedule", self.epsilon_schedule, EPSILON_SCHEDULES),
            ("llr_variant", self.llr_variant, LLR_VARIANTS),
            ("llr_preset", self.llr_preset, LLR_PRESETS),
        ):
            check_name(argument, value, names)
        check_flags(self.distribution, self.devices, self.cpu_replicas)
        check_positive(
            self, "scale", "step_size", "restarts", "learning_rate", "lr_drop_factor", "epochs", "batch_size",
            "image_size", "replays", "clip_norm", "early_stopping", "curvature_step", "epsilon_warmup",
            "swa_start", "worker_timeout",
        )  # fmt: skip
        for name in ("momentum", "label_smoothing", "ema", "guard_drop", "awp_gamma"):
            value = getattr(self, name)
            check(
                value is None or 0 <= value < 1, f"--{name} must lie in [0, 1). Received: --{name}={value}."
            )
        check_not_negative(
            self, "weight_decay", "beta", "pairing", "backup_minutes", "nfgsm_noise", "gradalign",
            "gamma_weight", "slope_weight", "curvature_weight", "awp_start", "epsilon_min", "margin",
        )  # fmt: skip
        rules.check_options(self)
        self.attack_scale  # noqa: B018  (raises on nonsense)

    @property
    def period_ends(self) -> tuple[int, ...]:
        """The epochs that are over at the end of each period."""
        return (*(int(reset) for reset in self.lr_resets), self.epochs)

    @property
    def attack_steps(self) -> int:
        """The attack steps, with the framework's default."""
        if self.steps is not None:
            return self.steps
        return 1 if self.framework in rules.ONE_STEP else 10

    @property
    def attack_step_size(self) -> float:
        """The length of an attack step, with the framework's default."""
        if self.step_size is not None:
            return self.step_size
        if self.framework == "llr" and self.llr_preset == "code":
            return 0.1
        if self.nfgsm_noise:
            return self.epsilon
        return {"fast_at": 1.25, "free_at": 1.0}.get(self.framework, 0.25) * self.epsilon

    @property
    def guarded_drop(self) -> float:
        """The fall in accuracy that the guard against overfitting reacts to; 0: no guard."""
        if self.guard_drop is not None:
            return self.guard_drop
        return 0.2 if self.framework == "fast_at" else 0.0

    @property
    def training_margin(self) -> float:
        """The margin, with the paper's default for each head."""
        return {"he": 0.2, "mhe": 0.1}.get(self.head, 0.0) if self.margin is None else self.margin

    @property
    def attack_scale(self):
        """`logit_scale` as attacks take it."""
        if self.logit_scale == "model":
            return "model"
        number = parse_number(self.logit_scale)
        check(number > 0, f"--logit_scale must be 'model' or larger than 0. Received: {self.logit_scale}.")
        return number
