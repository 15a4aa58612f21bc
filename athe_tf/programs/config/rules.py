"""Which options of a training run go together; refused before TensorFlow starts."""

import math

from athe_tf.data import extra
from athe_tf.utils.errors import check, check_choice

NORMS = ("l1", "l2", "linf")
# One step an image: FastAT's attack, and FreeAT's replays.
ONE_STEP = ("fast_at", "free_at")
# Options that only some frameworks know.
ONLY_IN = {
    "beta": ("trades", "mart"),
    "pairing": ("alp",),
    "pairing_form": ("alp",),
    "replays": ("free_at",),
    "noise_in_box": ("free_at",),
    "nfgsm_noise": ("fast_at",),
    "gradalign": ("fast_at",),
    "llr_preset": ("llr",),
    "llr_variant": ("llr",),
    "gamma_weight": ("llr",),
    "slope_weight": ("llr",),
    "curvature_weight": ("cure",),
    "curvature_step": ("cure",),
}
# What a framework that crafts nothing has no use for.
OF_THE_ATTACK = ("steps", "step_size", "start", "restarts", "logit_scale")


def check_options(config) -> None:
    """Raises `InputError`, with a remedy, where options of a `TrainConfig` contradict each other."""
    check_margin(config)
    check_attack(config)
    check_framework(config)
    check_framework_options(config)
    check_optimizer(config)
    check_fast_at(config)
    check_epsilon_schedule(config)
    check_periods(config)
    check_averages(config)
    check_extra_data(config)
    check(
        config.early_stopping is None or config.validation_size != 0,
        "--early_stopping looks at validation images. Received: --validation_size=0. Hold some out, or "
        "leave --early_stopping out.",
    )


def check_epsilon(norm: str, epsilon: float, flag: str = "epsilon") -> None:
    """Refuses a radius that no attack can use."""
    check_choice("norm", norm, NORMS)
    check(
        math.isfinite(epsilon) and epsilon >= 0,
        f"--{flag} must be a number that is not negative. Received: --{flag}={epsilon:g}.",
    )
    check(
        norm != "linf" or epsilon <= 1,
        f"Pixels lie in [0, 1], so --{flag} must not exceed 1 in linf. Received: --{flag}={epsilon:g}. "
        f"Did you mean --{flag}={epsilon:g}/255?",
    )


def check_margin(config) -> None:
    """A margin is of cosines or angles."""
    check(
        not config.margin or config.head != "linear",
        f"A margin needs a hypersphere head. Received: --head=linear --margin={config.margin}. "
        "Use --head=he, or --margin=0.",
    )


def check_attack(config) -> None:
    """Whoever crafts needs steps, and room to step."""
    if config.framework == "standard":
        return
    check(
        config.attack_steps >= 1,
        f"The framework '{config.framework}' needs at least one attack step. "
        f"Received: --steps={config.steps}. Use --framework=standard to train on clean images.",
    )
    check(
        config.epsilon > 0,
        f"The framework '{config.framework}' needs --epsilon larger than 0. Received: --epsilon=0. "
        "Use --framework=standard to train on clean images.",
    )


def check_framework(config) -> None:
    """Refuses what a framework cannot do, with what it can."""
    if config.framework in ONE_STEP:
        other = "--replays" if config.framework == "free_at" else "--framework=pgd_at"
        check(
            config.attack_steps == 1,
            f"The framework '{config.framework}' takes one attack step. Received: --steps={config.steps}. "
            f"Leave --steps out, or use {other} for more.",
        )
        check(
            config.restarts == 1,
            f"The framework '{config.framework}' has no restarts. Received: --restarts={config.restarts}. "
            "Leave --restarts out, or use --framework=pgd_at.",
        )
    if config.framework == "free_at":
        check(
            config.norm in ("linf", "l2"),
            f"The framework 'free_at' exists for linf and l2. Received: --norm={config.norm}. "
            "Use --framework=pgd_at.",
        )
        check(
            config.start is None,
            "The noise of 'free_at' goes on from batch to batch and has no start. "
            f"Received: --start={config.start}. Leave --start out.",
        )
        check(
            config.logit_scale == "model",
            "The framework 'free_at' attacks with the training loss itself. "
            f"Received: --logit_scale={config.logit_scale}. Leave --logit_scale out.",
        )
    if config.framework in ("cure", "llr"):
        check(
            config.bn_mode in (None, "frozen_clean"),
            f"The framework '{config.framework}' compares passes with the same batch statistics. "
            f"Received: --bn_mode={config.bn_mode}. Leave --bn_mode out.",
        )
    if config.framework in ("free_at", "standard"):
        check(
            config.bn_mode is None,
            f"The framework '{config.framework}' has no pass of its own for crafting. "
            f"Received: --bn_mode={config.bn_mode}. Leave --bn_mode out.",
        )


def given(config, name: str) -> bool:
    """Whether a setting is another one than its default."""
    return getattr(config, name) != type(config).__dataclass_fields__[name].default


def check_framework_options(config) -> None:
    """Refuses what would have no effect."""
    for name, frameworks in ONLY_IN.items():
        check(
            config.framework in frameworks or not given(config, name),
            f"--{name} is an option of {' and '.join(frameworks)}. Received: --framework={config.framework} "
            f"--{name}={getattr(config, name)}. Leave --{name} out, or use --framework={frameworks[0]}.",
        )
    for name in OF_THE_ATTACK if config.framework in ("cure", "standard") else ():
        check(
            not given(config, name),
            f"The framework '{config.framework}' crafts nothing. Received: --{name}={getattr(config, name)}. "
            f"Leave --{name} out; --validation_attack says what it is validated with.",
        )
    check(
        config.framework not in ("trades", "llr") or config.start != "zero",
        f"What '{config.framework}' climbs is flat at the image itself. Received: --start=zero. "
        "Leave --start out.",
    )


def check_optimizer(config) -> None:
    """Rates drop in order, and Adam has no momentum of SGD's kind."""
    drops = config.lr_drops
    check(
        all(a < b for a, b in zip((0, *drops), drops, strict=False)),
        "--lr_drops are epochs in rising order, after the first step. "
        f"Received: --lr_drops={','.join(f'{drop:g}' for drop in drops)}.",
    )
    for name in ("momentum", "nesterov"):
        check(
            config.optimizer == "sgd" or not given(config, name),
            f"--{name} is an option of sgd. Received: --optimizer={config.optimizer} "
            f"--{name}={getattr(config, name)}. Leave --{name} out, or use --optimizer=sgd.",
        )


def check_fast_at(config) -> None:
    """N-FGSM and GradAlign exclude each other, and say where the attack starts."""
    for name in ("nfgsm_noise", "gradalign"):
        value = getattr(config, name)
        check(
            not value or config.start is None,
            f"--{name} says where the attack starts. Received: --start={config.start}. Leave --start out.",
        )
    check(
        not (config.nfgsm_noise and config.gradalign),
        "GradAlign starts at the image, N-FGSM far from it. Received: "
        f"--nfgsm_noise={config.nfgsm_noise:g} --gradalign={config.gradalign:g}. Use one of them.",
    )


def check_epsilon_schedule(config) -> None:
    """A schedule rises from below to the epsilon to train for."""
    if config.epsilon_schedule == "constant":
        given = [n for n in ("epsilon_max", "epsilon_warmup") if getattr(config, n) is not None]
        check(
            not given and not config.epsilon_min,
            f"A constant epsilon does not rise. Received: --{(given or ['epsilon_min'])[0]}. "
            "Use --epsilon_schedule=linear.",
        )
        return
    check(
        config.framework != "standard",
        f"Standard training has no epsilon. Received: --epsilon_schedule={config.epsilon_schedule}. "
        "Leave it out, or use --framework=pgd_at.",
    )
    check(
        config.epsilon_max is None or config.epsilon_warmup is None,
        "--epsilon_max and --epsilon_warmup both say how fast epsilon rises. Received: "
        f"--epsilon_max={config.epsilon_max} --epsilon_warmup={config.epsilon_warmup}. Use one of them.",
    )
    if config.epsilon_max is not None:
        check_epsilon(config.norm, config.epsilon_max, "epsilon_max")
    highest = config.epsilon if config.epsilon_max is None else config.epsilon_max
    check(
        config.epsilon_min <= config.epsilon <= highest,
        "Epsilon rises from --epsilon_min towards --epsilon_max and stops at --epsilon. Received: "
        f"--epsilon_min={config.epsilon_min:g} --epsilon={config.epsilon:g} --epsilon_max={highest:g}.",
    )


def check_periods(config) -> None:
    """Periods are whole epochs, and an ensemble needs some."""
    resets = list(config.lr_resets)
    check(
        all(a < b for a, b in zip([0, *resets], [*resets, config.epochs], strict=True))
        and all(reset == int(reset) for reset in resets),
        "--lr_resets are whole epochs in rising order, after the first and before the last. "
        f"Received: --lr_resets={','.join(f'{r:g}' for r in resets)} --epochs={config.epochs}.",
    )
    check(
        not config.ensemble or len(resets) > 0,
        "An ensemble has one model a period, and without --lr_resets there is one period. Received: "
        "--ensemble. Add --lr_resets, such as --lr_resets=100,150 of 200 epochs.",
    )


def check_averages(config) -> None:
    """One average is shipped, and AWP needs weights that can move."""
    check(
        config.swa_start is None or not config.ema,
        "--swa_start and --ema are two averages of the weights, and one is shipped. Received: "
        f"--swa_start={config.swa_start} --ema={config.ema:g}. Use one of them.",
    )
    check(
        config.swa_start is None or config.swa_start < config.epochs,
        f"--swa_start must lie before the last epoch. Received: --swa_start={config.swa_start} "
        f"--epochs={config.epochs}. Begin earlier, or train for longer.",
    )
    check(
        bool(config.awp_gamma) or not config.awp_start,
        f"--awp_start says when --awp_gamma begins. Received: --awp_start={config.awp_start:g} and no "
        "--awp_gamma. Add --awp_gamma=0.005, or leave --awp_start out.",
    )
    check(
        config.awp_start < config.epochs,
        f"--awp_start must lie before the last epoch. Received: --awp_start={config.awp_start:g} "
        f"--epochs={config.epochs}. Begin earlier, or train for longer.",
    )
    check(
        not config.awp_gamma or config.weight_norm != "project" or config.head == "linear",
        "AWP moves the class weights off the sphere that --weight_norm=project keeps them on. "
        f"Received: --awp_gamma={config.awp_gamma:g}. Use --weight_norm=differentiable.",
    )


def check_extra_data(config) -> None:
    """Extra images come from a file that can be read."""
    if config.extra_data is None:
        check(
            config.extra_labels_by is None,
            "--extra_labels_by labels the images of --extra_data. Received: no --extra_data. Name it.",
        )
        check(
            not given(config, "extra_fraction"),
            "--extra_fraction is the share of --extra_data. Received: "
            f"--extra_fraction={config.extra_fraction:g} and no --extra_data. Name it.",
        )
        return
    check(
        0 < config.extra_fraction < 1,
        f"--extra_fraction must lie between 0 and 1. Received: --extra_fraction={config.extra_fraction:g}.",
    )
    extra.check_file(config.extra_data, config.extra_labels_by is not None)
