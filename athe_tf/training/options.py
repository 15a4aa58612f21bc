"""The frameworks by name, and the options of each: choices, defaults, help texts and rules.

Nothing here imports TensorFlow. The flags of `bin/train` and the constructors of the frameworks are derived
from these classes, and refuse the same values with the same messages. A new framework is one new file and one
class here, listed in `OPTIONS`; from outside the package, `module:Name` works wherever a name does.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from athe_tf.utils.choices import NORMS, STARTS
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_options, option, with_help
from athe_tf.utils.registry import Registry, import_object, split_call, unknown_name

if TYPE_CHECKING:
    from athe_tf.training.adversarial_model import AdversarialModel

BN_MODES = ("eval", "train", "batch_no_update", "frozen_clean")
EPSILON_SCHEDULES = ("constant", "linear", "cosine")
LR_SCHEDULES = ("constant", "piecewise", "multistep", "cosine", "cyclic", "one_cycle")
#: Which variables decay, and how those are called that do not.
NO_DECAY = {"all": (), "kernels": ("bias", "beta", "gamma"), "all_but_norm": ("beta", "gamma")}
#: PyTorch's SGD, and the optimizers of Keras.
OPTIMIZERS = (
    "sgd", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb", "lion", "muon",
    "nadam", "rmsprop", "schedulefreeadamw",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SharedOptions:
    """Options of the training step that every framework has."""

    label_smoothing: float = option(0.0, "Label smoothing in the training loss.", ge=0, lt=1)
    attack_smoothing: float = option(0.0, "Label smoothing in the loss of the attack.", ge=0, lt=1)
    bn_mode: str | None = option(None, "Batch normalization while crafting.", choices=BN_MODES)
    clip_norm: float | None = option(None, "Clip the gradient of the weights to this norm. [never]", gt=0)
    accumulate: int = option(1, "Parts of a batch that are computed one after another, to save memory.", ge=1)
    bn_copy_first: bool = option(False, "In the first update, moving statistics become those of the batch.")

    def __post_init__(self):
        check_options(self)


@dataclasses.dataclass(frozen=True)
class AverageOptions:
    """Averages of the weights; the average is what is validated and exported."""

    ema: float = option(0.0, "Decay of a moving average of the weights. 0 disables it.", ge=0, lt=1)
    ema_start: float = option(0.0, "Epochs before --ema begins; until then it copies the weights.", ge=0)
    ema_constant: bool = option(False, "Use --ema from the first update on, without a smaller one before.")
    ema_statistics: str = option(
        "copied", "Moving statistics of the --ema model.", choices=("copied", "averaged")
    )
    swa_start: int | None = option(None, "Average the weights of all epochs after this one.", gt=0)


@dataclasses.dataclass(frozen=True)
class PerturbationOptions:
    """Adversarial weight perturbation."""

    awp_gamma: float = option(0.0, "AWP: size relative to the weights. 0 disables it.", ge=0, lt=1)
    awp_start: float = option(0.0, "Epochs before weights are perturbed.", ge=0)


@dataclasses.dataclass(frozen=True)
class EpsilonOptions:
    """The radius of the training attack over time."""

    epsilon_schedule: str = option("constant", "Rise of epsilon in each period.", choices=EPSILON_SCHEDULES)
    epsilon_min: float = option(0.0, "Epsilon at the beginning of every period.", ge=0)
    epsilon_max: float | None = option(None, "End of the rise, clipped to epsilon. [twice epsilon]", ge=0)
    epsilon_warmup: float | None = option(None, "Epochs of the rise, instead of epsilon_max.", gt=0)
    epsilon_delay: float = option(0.0, "Epochs at epsilon_min before the first rise.", ge=0)


def parse_optimizer(text: str) -> tuple[str, dict[str, Any]]:
    """The name of an optimizer and its arguments, from a name that may carry them as a call.

    Example:

    >>> parse_optimizer("adamw(beta_2=0.95)")
    ('adamw', {'beta_2': 0.95})
    """
    name, arguments = split_call(text, "optimizer", "adamw(beta_2=0.95)")
    if name not in OPTIMIZERS:
        raise unknown_name("optimizer", name, OPTIMIZERS)
    return name, arguments


def check_epsilon_order(lowest: float, target: float, highest: float) -> None:
    """Raises `InputError` unless a schedule rises from `lowest` to at least `target`."""
    check(
        0 <= lowest <= target <= highest,
        "A schedule of epsilon rises from its lowest value toward its highest and stops at epsilon. "
        f"Received: lowest={lowest:g}, epsilon={target:g}, highest={highest:g}.",
    )


def check_epsilon_delay(delay: float, first_end: float) -> None:
    """Raises `InputError` unless epsilon begins to rise before the first period ends."""
    check(
        delay < first_end,
        "Epsilon must begin to rise before the end of the first period. Expected: a delay of less than "
        f"{first_end:g}. Received: {delay:g}.",
    )


def check_rising(values, display_name: str, gt: float | None = None, strict: bool = True) -> None:
    """Raises `InputError` unless numbers are in rising order; without `strict`, equal ones are allowed."""
    lowest = () if gt is None else (gt,)
    check(
        all(a < b or (a == b and not strict) for a, b in itertools.pairwise((*lowest, *values))),
        f"{display_name} must be in rising order{'' if gt is None else f' and larger than {gt:g}'}. "
        f"Received: {','.join(f'{value:g}' for value in values)}.",
    )


def check_margin(margin: float, head: str, has_scale: bool) -> None:
    """Raises `InputError` for a margin that the loss of a head cannot have.

    Args:
        margin: The m of Eq. 6.
        head: The name of the head in the message.
        has_scale: Whether the head has a scale, as every hypersphere head has.
    """
    check(0 <= margin < math.inf, f"margin must be finite and not negative. Received: margin={margin:g}.")
    check(
        not margin or has_scale,
        f"A margin needs a hypersphere head. Received: a head '{head}' and margin={margin:g}. Use a "
        "CosineDense head such as 'he', or margin=0.",
    )


def check_perturbation(gamma: float, weight_norm: str | None) -> None:
    """Raises `InputError` for weights that cannot be perturbed."""
    check(
        not gamma or weight_norm != "project",
        "AWP moves the class weights off the sphere that weight_norm='project' keeps them on. "
        f"Received: awp_gamma={gamma:g}. Use weight_norm='differentiable'.",
    )


@dataclasses.dataclass(frozen=True)
class FrameworkOptions:
    """The options of a framework: the fields of a subclass, each made with `option`.

    The class attributes describe what the framework requires of its attack. Both apply in Python and on the
    command line.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class MyOptions(FrameworkOptions):
    ...     sharpness: float = option(2.0, "How sharp.", gt=0)
    >>> MyOptions(sharpness=3.0).sharpness
    3.0
    """

    #: The name, for messages and for the registry.
    name: ClassVar[str] = "framework"
    #: `"module:class"` in this package.
    implementation: ClassVar[str] = ""
    #: Whether a step crafts adversarial examples.
    crafts: ClassVar[bool] = True
    #: Whether training depends on a radius, which a schedule can then change.
    has_epsilon: ClassVar[bool] = True
    #: Whether the constructor needs `batch_size`, to keep something per position of the batch.
    takes_batch_size: ClassVar[bool] = False
    #: Whether the constructor takes `updates`, the length of the training.
    takes_updates: ClassVar[bool] = False
    #: The default number of attack steps, and whether it must be one step from one start.
    default_steps: ClassVar[int] = 10
    one_step: ClassVar[bool] = False
    #: Whether the framework makes the steps itself, of PGD only.
    own_steps: ClassVar[bool] = False
    #: The default step size in units of epsilon.
    step_per_epsilon: ClassVar[float] = 1 / 4
    #: What a message says to those who want more steps.
    more_steps: ClassVar[str] = "Use 'pgd_at' for more."
    #: The default start of the attack, and the allowed ones; empty if the framework sets the start itself.
    default_start: ClassVar[str] = "uniform"
    starts: ClassVar[tuple[str, ...]] = STARTS
    norms: ClassVar[tuple[str, ...]] = NORMS
    #: Whether the attack may use another logit scale.
    free_scale: ClassVar[bool] = True
    #: Modes of batch normalization while crafting; the first is the default.
    bn_modes: ClassVar[tuple[str, ...]] = BN_MODES
    #: Which validation accuracy selects the best epoch: `"robust"` or `"clean"`.
    chosen_by: ClassVar[str] = "robust"
    #: The drop of robust accuracy that counts as catastrophic overfitting; 0 disables the guard.
    guard_drop: ClassVar[float] = 0.0

    def __post_init__(self):
        check_options(self)

    @property
    def updates_per_step(self) -> int:
        """Weight updates per step; learning-rate schedules count updates."""
        return 1

    @property
    def attack_has_labels(self) -> bool:
        """Whether the attack maximizes a loss of the labels that is not the training loss itself."""
        return self.crafts

    def step_size(self, epsilon: float) -> float:
        """The default step size of the attack."""
        return self.step_per_epsilon * epsilon

    def check_attack(
        self,
        *,
        norm: str,
        steps: int,
        restarts: int,
        start: str | None,
        logit_scale="model",
        kind: str = "pgd",
    ):
        """Raises `InputError` for an attack that the framework cannot craft with, by the attack's arguments.

        `start` is `None` if it was not given; `kind` is the name of the attack.
        """
        check(
            kind == "pgd" or not (self.own_steps or (self.one_step and kind.startswith("apgd"))),
            f"The framework '{self.name}' makes steps of PGD. Received: attack='{kind}'. Use 'pgd_at'.",
        )
        check(
            steps >= 1,
            f"The framework '{self.name}' needs at least one attack step. Received: steps={steps}. Use "
            "'standard' to train on clean images.",
        )
        check(
            not self.one_step or (steps, restarts) == (1, 1),
            f"The framework '{self.name}' takes one attack step from one start. Received: steps={steps}, "
            f"restarts={restarts}. {self.more_steps}",
        )
        check(
            norm in self.norms,
            f"The framework '{self.name}' exists for {' and '.join(self.norms)}. Received: norm='{norm}'. "
            "Use 'pgd_at'.",
        )
        decides = f"The framework '{self.name}' decides itself where its attack starts."
        why_not = f"The objective of '{self.name}' has zero gradient at the clean image."
        check(
            start is None or start in self.starts,
            f"{why_not if self.starts else decides} Received: start='{start}'. Leave it out.",
        )
        check(
            self.free_scale or logit_scale == "model",
            f"The framework '{self.name}' attacks with the training loss itself. Received: "
            f"logit_scale={logit_scale}. Leave it out.",
        )

    def check_attack_smoothing(self, smoothing: float) -> None:
        """Raises `InputError` for label smoothing in an attack whose loss has no labels of its own."""
        check(
            not smoothing or self.attack_has_labels,
            f"The framework '{self.name}' has no attack with a loss of its own on labels. Received: "
            f"attack_smoothing={smoothing:g}. Leave it out.",
        )

    def check_bn_mode(self, mode: str | None) -> None:
        """Raises `InputError` for a mode of batch normalization that the framework cannot craft in."""
        modes = " or ".join(f"'{mode}'" for mode in self.bn_modes) or "none: it has no pass for crafting"
        check(
            mode is None or mode in self.bn_modes,
            f"The framework '{self.name}' crafts with bn_mode={modes}. Received: bn_mode='{mode}'. "
            "Leave it out.",
        )


# Starts other than the clean image itself.
_AWAY = tuple(start for start in STARTS if start != "zero")


@dataclasses.dataclass(frozen=True)
class StandardOptions(FrameworkOptions):
    name = "standard"
    implementation = "pgd_at:Standard"
    crafts = False
    has_epsilon = False
    bn_modes = ()
    chosen_by = "clean"


@dataclasses.dataclass(frozen=True)
class PGDATOptions(FrameworkOptions):
    name = "pgd_at"
    implementation = "pgd_at:PGDAT"


@dataclasses.dataclass(frozen=True)
class ALPOptions(FrameworkOptions):
    name = "alp"
    implementation = "pgd_at:ALP"
    pairing: float = option(0.5, "Weight of the logit pairing.", ge=0)
    pairing_form: str = option("mse", "Distance; the paper has l2.", choices=("mse", "l2"))
    clean_weight: float = option(0.5, "Weight of the clean images, the paper's alpha.", ge=0, lt=1)


@dataclasses.dataclass(frozen=True)
class TRADESOptions(FrameworkOptions):
    name = "trades"
    implementation = "trades:TRADES"
    default_start = "gaussian"
    starts = _AWAY
    beta: float = option(6.0, "Weight of the divergence.", ge=0)
    divergence: str = option(
        "kl",
        "Divergence; ce is Table 1 of the HE paper, mse SCORE, whose clean loss is squared too.",
        choices=("kl", "ce", "mse"),
    )
    attack_from: str = option(
        "prediction",
        "What the attack moves away from: the clean prediction, or, as published with CutMix, the label.",
        choices=("prediction", "label"),
    )

    @property
    def attack_has_labels(self) -> bool:
        return self.attack_from == "label"


@dataclasses.dataclass(frozen=True)
class MARTOptions(FrameworkOptions):
    name = "mart"
    implementation = "mart:MART"
    default_start = "gaussian"
    beta: float = with_help(TRADESOptions, "beta")


@dataclasses.dataclass(frozen=True)
class FreeATOptions(FrameworkOptions):
    name = "free_at"
    own_steps = True
    implementation = "free_at:FreeAT"
    default_steps = 1
    step_per_epsilon = 1.0
    one_step = True
    starts = ()
    norms = ("linf", "l2")
    free_scale = False
    bn_modes = ("train",)
    takes_batch_size = True
    attack_has_labels = False
    more_steps = "Use `replays` for more."
    replays: int = option(8, "Updates per batch; an epoch is one pass over the images.", ge=1)
    noise_in_box: bool = option(
        False, "Project the noise so that image plus noise lies in [0, 1], instead of clipping the sum."
    )

    @property
    def updates_per_step(self) -> int:
        return self.replays


@dataclasses.dataclass(frozen=True)
class FastATOptions(FrameworkOptions):
    name = "fast_at"
    implementation = "fast_at:FastAT"
    default_steps = 1
    one_step = True
    bn_modes: ClassVar[tuple[str, ...]] = ("train", "eval", "batch_no_update", "frozen_clean")
    guard_drop = 0.2
    step_per_epsilon = 1.25


@dataclasses.dataclass(frozen=True)
class NFGSMOptions(FastATOptions):
    name = "n_fgsm"
    own_steps = True
    implementation = "fast_at:NFGSM"
    starts = ()
    step_per_epsilon = 1.0
    noise: float = option(2.0, "Magnitude of the initial noise in units of epsilon; no projection.", gt=0)


@dataclasses.dataclass(frozen=True)
class GradAlignOptions(FastATOptions):
    name = "gradalign"
    own_steps = True
    implementation = "fast_at:GradAlign"
    starts = ()
    alignment: float = option(0.2, "Weight of the alignment of gradients.", ge=0)


@dataclasses.dataclass(frozen=True)
class LIETOptions(FastATOptions):
    name = "liet"
    implementation = "liet:LIET"
    starts = ()
    own_steps = True
    attack_has_labels = False
    norms = ("linf",)
    bn_modes: ClassVar[tuple[str, ...]] = ("train",)
    step_per_epsilon = 1.0
    takes_updates = True
    consistency: float = option(100.0, "Final weight of the divergence between start and example.", ge=0)
    relaxation: float = option(0.6, "Label smoothing with random shares of the wrong classes.", ge=0, lt=1)
    refresh: int = option(20, "Updates between two sets of class directions.", ge=1)


@dataclasses.dataclass(frozen=True)
class LLROptions(FrameworkOptions):
    name = "llr"
    own_steps = True
    implementation = "llr:LLR"
    starts = _AWAY
    attack_has_labels = False
    bn_modes = ("frozen_clean",)
    #: Weights of third-party code with a search by sign steps, and the values of the released code.
    presets: ClassVar[Mapping[str, dict[str, Any]]] = {
        "paper": {"nominal_weight": 1.0, "gamma_weight": 4.0, "slope_weight": 3.0,
                  "rule": "sign", "tangent_gradient": True},
        "code": {"nominal_weight": 2.0, "gamma_weight": 4.0, "slope_weight": 4.0 * 0.3,
                 "rule": "adam", "tangent_gradient": False},
    }  # fmt: skip
    variant: str = option("llr", "Which terms.", choices=("llr", "gamma_only", "grad_norm"))
    preset: str = option("paper", "Weights and inner steps.", choices=("paper", "code"))
    nominal_weight: float | None = option(None, "Weight of the clean loss. [the preset's]", ge=0)
    gamma_weight: float | None = option(None, "Weight of gamma, the paper's lambda. [the preset's]", ge=0)
    slope_weight: float | None = option(None, "Weight of the slope, the paper's mu. [the preset's]", ge=0)
    rule: str | None = option(None, "Steps of the search. [the preset's]", choices=("sign", "adam"))
    tangent_gradient: bool | None = option(None, "Follow the tangent's gradient too. [the preset's]")

    def step_size(self, epsilon: float) -> float:
        return 0.1 if self.preset == "code" else super().step_size(epsilon)

    def resolved(self, name: str):
        """The value of an option, or the preset's."""
        value = getattr(self, name)
        return self.presets[self.preset][name] if value is None else value


@dataclasses.dataclass(frozen=True)
class CUREOptions(FrameworkOptions):
    name = "cure"
    implementation = "llr:CURE"
    crafts = False
    bn_modes = ("frozen_clean",)
    curvature_weight: float = option(4.0, "Weight of the curvature, the paper's gamma.", ge=0)
    curvature_step: float = option(1.5, "Euclidean length of the paper's step h.", gt=0)


OPTIONS: dict[str, type[FrameworkOptions]] = {
    options.name: options
    for options in (
        StandardOptions, PGDATOptions, ALPOptions, TRADESOptions, FreeATOptions, FastATOptions, NFGSMOptions,
        GradAlignOptions, LIETOptions, MARTOptions, LLROptions, CUREOptions,
    )
}  # fmt: skip

FRAMEWORKS = Registry(
    "framework", __package__, {name: options.implementation for name, options in OPTIONS.items()}
)


def options_of(name: str) -> type[FrameworkOptions]:
    """The options class of a framework; imports the module of `module:Name`.

    Example:

    >>> options_of("trades").default_start
    'gaussian'
    """
    FRAMEWORKS.check(name)
    return OPTIONS[name] if name in OPTIONS else import_object(name, "framework").options_class


def get(name: str) -> "type[AdversarialModel]":
    """The framework class of a name.

    Example:

    >>> athe_tf.training.get("trades").__name__
    'TRADES'

    Args:
        name: A registered name, or `"module:Name"`.
    """
    return FRAMEWORKS.get(name)
