"""What a run is: frozen dataclasses, checked before TensorFlow starts.

Every field is a flag of the same name; its `help` is the flag's. The library itself never reads flags.
"""

import dataclasses
import json
import math
from typing import Any, get_args, get_type_hints

from athe_tf import attacks, data, models
from athe_tf.errors import check, check_choice
from athe_tf.numbers import format_number, parse_number
from athe_tf.registry import unknown_name
from athe_tf.training import FRAMEWORKS

NORMS = ("l1", "l2", "linf")
SCHEDULES = ("constant", "cosine", "cyclic", "multistep", "piecewise")
OPTIMIZERS = ("adam", "sgd")
STARTS = ("gaussian", "uniform", "zero")
BN_MODES = ("eval", "train", "batch_no_update", "frozen_clean")
PAIRING_FORMS = ("l2", "mse")
PRECISIONS = ("bfloat16", "float16", "none")
# One step an image: FastAT's attack, and FreeAT's replays.
ONE_STEP = ("fast_at", "free_at")


def option(default, help: str, **metadata):
    """A field with its help text. `runtime=True` marks what does not change the result of a run."""
    return dataclasses.field(default=default, metadata={"help": help, **metadata})


def _check_name(argument: str, value, names) -> None:
    if value not in names:
        raise unknown_name(argument, str(value), names)


def _check_positive(config, *names) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None:
            check(
                math.isfinite(value) and value > 0,
                f"--{name} must be larger than 0. Received: --{name}={value:g}.",
            )


def check_epsilon(norm: str, epsilon: float) -> None:
    """Refuses a radius that no attack can use."""
    check_choice("norm", norm, NORMS)
    check(
        math.isfinite(epsilon) and epsilon >= 0,
        f"--epsilon must be a number that is not negative. Received: --epsilon={epsilon:g}.",
    )
    check(
        norm != "linf" or epsilon <= 1,
        f"Pixels lie in [0, 1], so --epsilon must not exceed 1 in linf. Received: --epsilon={epsilon:g}. "
        f"Did you mean --epsilon={epsilon:g}/255?",
    )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A training run. The defaults are those of HE's CIFAR-10 tables, with a small model."""

    # What to learn from.
    dataset: str = option("digits", "Data set: digits, npz:PATH, or any TensorFlow Datasets name.")
    data_dir: str | None = option(None, "Where TensorFlow Datasets keeps its data.", runtime=True)
    image_size: int | None = option(None, "Crop and resize images to this height and width.")
    validation_size: int | None = option(
        None, "Training images held out for validation. [a tenth of them, at most 1000]"
    )
    augmentation: str = option("pad_crop_flip", "none, flip, pad_crop or pad_crop_flip.")
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
    # How to train.
    framework: str = option("pgd_at", f"Framework: {', '.join(FRAMEWORKS)}.")
    beta: float = option(6.0, "Weight of the divergence in TRADES.")
    pairing: float = option(0.5, "Weight of the pairing of logits in ALP.")
    pairing_form: str = option("mse", "What ALP pairs by: mse (the released code) or l2 (the paper's text).")
    replays: int = option(8, "Updates that FreeAT makes of each batch; an epoch is one pass over the images.")
    noise_in_box: bool = option(
        False, "Keep FreeAT's noise where image and noise lie in [0, 1], and not only in the ball."
    )
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
    step_size: float | None = option(
        None, "Length of an attack step. [1.25 epsilon for fast_at, epsilon for free_at, else epsilon/4]"
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
    momentum: float = option(0.9, "Momentum of sgd.")
    nesterov: bool = option(False, "Nesterov's momentum.")
    weight_decay: float = option(2e-4, "Weight decay; coupled in sgd.")
    clip_norm: float | None = option(None, "Shorten the gradient of the weights to this length. [never]")
    ema: float = option(
        0.0, "Decay of a moving average of the weights, such as 0.995, which is then validated and exported."
    )
    mixed_precision: str = option(
        "none", "Compute in half precision, on accelerators: float16 (with loss scaling), bfloat16 or none."
    )
    epochs: int = option(100, "Passes over the training images.")
    batch_size: int = option(128, "Images a step, over all devices.")
    early_stopping: int | None = option(
        None, "Stop when the best robust validation accuracy is so many epochs old. [never]"
    )
    # The run.
    seed: int = option(0, "Seed of initialisation, order, augmentation and attack starts.")
    backup_minutes: float = option(
        10.0, "A backup is written at every epoch's end, and so many minutes after the last.", runtime=True
    )
    workdir: str | None = option(None, "Folder of the run. The same command resumes it.", runtime=True)

    def __post_init__(self):
        data.check_name(self.dataset)
        data.AUGMENTATIONS.check(self.augmentation)
        models.check_name(self.model)
        models.check_head(self.head)
        FRAMEWORKS.check(self.framework)
        attacks.parse_name(self.validation_attack)
        check_epsilon(self.norm, self.epsilon)
        for argument, value, names in (
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("lr_schedule", self.lr_schedule, SCHEDULES),
            ("start", self.start or "uniform", STARTS),
            ("bn_mode", self.bn_mode or "eval", BN_MODES),
            ("weight_norm", self.weight_norm, ("differentiable", "project", "straight_through")),
            ("activation", self.activation, models.ACTIVATIONS),
            ("pairing_form", self.pairing_form, PAIRING_FORMS),
            ("mixed_precision", self.mixed_precision, PRECISIONS),
        ):
            _check_name(argument, value, names)
        _check_positive(
            self, "scale", "step_size", "restarts", "learning_rate", "lr_drop_factor", "epochs", "batch_size",
            "image_size", "replays", "clip_norm", "early_stopping",
        )  # fmt: skip
        for name in ("momentum", "label_smoothing", "ema", "guard_drop"):
            value = getattr(self, name)
            check(
                value is None or 0 <= value < 1, f"--{name} must lie in [0, 1). Received: --{name}={value}."
            )
        for name in ("weight_decay", "beta", "pairing", "backup_minutes"):
            value = getattr(self, name)
            check(value >= 0, f"--{name} must not be negative. Received: --{name}={value:g}.")
        self._check_margin()
        self._check_attack()
        self._check_framework()
        check(
            self.early_stopping is None or self.validation_size != 0,
            "--early_stopping looks at validation images. Received: --validation_size=0. Hold some out, or "
            "leave --early_stopping out.",
        )
        self.attack_scale  # noqa: B018  (raises on nonsense)

    def _check_margin(self):
        if self.margin:
            check(self.margin > 0, f"--margin must not be negative. Received: --margin={self.margin:g}.")
            check(
                self.head != "linear",
                f"A margin needs a hypersphere head. Received: --head=linear --margin={self.margin:g}. "
                "Use --head=he, or --margin=0.",
            )

    def _check_attack(self):
        if self.framework == "standard":
            return
        check(
            self.attack_steps >= 1,
            f"The framework '{self.framework}' needs at least one attack step. "
            f"Received: --steps={self.steps}. Use --framework=standard to train on clean images.",
        )
        check(
            self.epsilon > 0,
            f"The framework '{self.framework}' needs --epsilon larger than 0. Received: --epsilon=0. "
            "Use --framework=standard to train on clean images.",
        )

    def _check_framework(self):
        """Refuses what a framework cannot do, with what it can."""
        if self.framework in ONE_STEP:
            other = "--replays" if self.framework == "free_at" else "--framework=pgd_at"
            check(
                self.attack_steps == 1,
                f"The framework '{self.framework}' takes one attack step. Received: --steps={self.steps}. "
                f"Leave --steps out, or use {other} for more.",
            )
            check(
                self.restarts == 1,
                f"The framework '{self.framework}' has no restarts. Received: --restarts={self.restarts}. "
                "Leave --restarts out, or use --framework=pgd_at.",
            )
        if self.framework == "free_at":
            check(
                self.norm in ("linf", "l2"),
                f"The framework 'free_at' exists for linf and l2. Received: --norm={self.norm}. "
                "Use --framework=pgd_at.",
            )
            check(
                self.start is None,
                "The noise of 'free_at' goes on from batch to batch and has no start. "
                f"Received: --start={self.start}. Leave --start out.",
            )
            check(
                self.logit_scale == "model",
                "The framework 'free_at' attacks with the training loss itself. "
                f"Received: --logit_scale={self.logit_scale}. Leave --logit_scale out.",
            )
        if self.framework in ("free_at", "standard"):
            check(
                self.bn_mode is None,
                f"The framework '{self.framework}' has no pass of its own for crafting. "
                f"Received: --bn_mode={self.bn_mode}. Leave --bn_mode out.",
            )

    @property
    def attack_steps(self) -> int:
        """The attack steps, with the framework's default."""
        if self.steps is not None:
            return self.steps
        return 1 if self.framework in ONE_STEP else 10

    @property
    def attack_step_size(self) -> float:
        """The length of an attack step, with the framework's default."""
        if self.step_size is not None:
            return self.step_size
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


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """An evaluation. What is left out is taken from the training run, where the model comes from one."""

    model: str = option("", "A .keras file, a SavedModel folder, a workdir of bin/train, or module:function.")
    dataset: str | None = option(None, "Data set, as in bin/train. [the run's own]")
    data_dir: str | None = option(None, "Where TensorFlow Datasets keeps its data. [the run's own]")
    image_size: int | None = option(None, "Crop and resize images to this height and width. [the run's own]")
    split: str = option("test", "test, validation or train.")
    attacks: tuple[str, ...] = option(
        ("fgsm", "pgd-20", "cw-linf-20"),
        "Attacks by name, separated by commas; a trailing number is the steps.",
    )
    norm: str | None = option(None, "Norm of the threat model: linf, l2 or l1. [the run's own, or linf]")
    epsilon: float | None = option(
        None, "Radius of the threat model in pixels of [0, 1]. [the run's own, or 8/255]"
    )
    max_examples: int | None = option(None, "Evaluate the first so many images only.")
    batch_size: int = option(128, "Images that go through the model at once.")
    seed: int = option(0, "Seed of the attacks.")
    output: str | None = option(None, "Folder for evaluation.json.")

    def __post_init__(self):
        check(
            bool(self.model),
            "Say which model to evaluate: --model=FILE.keras, a SavedModel folder or a workdir.",
        )
        if self.dataset is not None:
            data.check_name(self.dataset)
        check(len(self.attacks) > 0, "Name at least one attack, as --attacks=fgsm,pgd-20.")
        for name in self.attacks:
            attacks.parse_name(name)
        check_epsilon(self.norm or "linf", 0.0 if self.epsilon is None else self.epsilon)
        _check_name("split", self.split, ("test", "validation", "train"))
        _check_positive(self, "max_examples", "batch_size", "image_size")


@dataclasses.dataclass(frozen=True)
class ExportConfig:
    """An export to a SavedModel."""

    model: str = option("", "A .keras file, or a workdir of bin/train.")
    output: str = option("", "Folder to write; must not exist yet.")

    def __post_init__(self):
        check(bool(self.model), "Say which model to export: --model=FILE.keras or a workdir.")
        check(bool(self.output), "Say where to write: --output=FOLDER.")


# -- to and from text ---------------------------------------------------------------------------------------


def field_type(config_class, name: str):
    """The type of a field without `None`: `int`, `float`, `str`, `bool` or `tuple`."""
    hint = get_type_hints(config_class)[name]
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    return tuple if getattr(hint, "__origin__", None) is tuple else kinds[0]


def item_type(config_class, name: str):
    """The type of the items of a tuple field."""
    return get_args(get_type_hints(config_class)[name])[0]


def to_json(config) -> str:
    """A config as JSON, for `config.json`."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(config_class, text: str):
    """The config of a `config.json`; fields that it does not know are an error."""
    values: dict[str, Any] = json.loads(text)
    known = {field.name for field in dataclasses.fields(config_class)}
    for name in values:
        if name not in known:
            raise unknown_name("setting", name, known)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return config_class(**values)


def flag_text(config, name: str) -> str:
    """A field's value as one would write it on the command line."""
    value = getattr(config, name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(format_number(v) if isinstance(v, float) else str(v) for v in value)
    return exact_number(value) if isinstance(value, float) else str(value)


def exact_number(value: float) -> str:
    """A number's shortest text that reads back as the same number."""
    text = format_number(value)
    return text if parse_number(text) == value else repr(value)


def differences(one, other) -> list[str]:
    """The settings that matter and differ, as text; empty when two runs are the same run."""
    return [
        f"--{field.name}={flag_text(other, field.name)} (there: {flag_text(one, field.name)})"
        for field in dataclasses.fields(one)
        if not field.metadata.get("runtime") and getattr(one, field.name) != getattr(other, field.name)
    ]
