"""Which settings of a training run go together; refused before TensorFlow starts."""

import math
import re

from athe_tf.data.npz import check_extra_file
from athe_tf.models.names import is_file
from athe_tf.programs.config.fields import picked
from athe_tf.training import options as training
from athe_tf.utils.choices import check_epsilon, check_input_range
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.registry import is_import_path

# The heads whose logits each form of the margin is made for.
MARGIN_FORM_HEADS = {"cosine": ("he", "fn", "wn"), "angle": ("mhe",), "arc": ("he",)}
# Settings that a constant epsilon does not use.
SCHEDULE_OPTIONS = ("epsilon_min", "epsilon_max", "epsilon_warmup", "epsilon_delay")
# Settings of PyTorch's SGD, and which argument of an optimizer is which flag.
SGD_OPTIONS = ("momentum", "nesterov", "momentum_range")
OPTIMIZER_FLAGS = {name: name for name in ("learning_rate", "weight_decay", "momentum", "nesterov")}
OPTIMIZER_FLAGS |= {"gradient_accumulation_steps": "accumulate", "use_ema": "ema"}
# Settings that a framework without an attack does not use.
ATTACK_OPTIONS = ("attack", "steps", "step_size", "step_size_warmup", "start", "restarts", "logit_scale")


def check_settings(config) -> None:
    """Raises `InputError`, with a remedy, if settings of a `TrainConfig` contradict each other."""
    check(
        not (config.jit_compile and config.deterministic),
        "Keras does not compile a deterministic step with XLA. Received: --jit_compile and --deterministic. "
        "Leave one of them out.",
    )
    # The head of a model from elsewhere is known, and checked, when it is built.
    is_own = not is_import_path(config.model) and not is_file(config.model)
    for name in ("activation", "bn_momentum", "precision") if is_file(config.model) else ():
        check(
            not given(config, name),
            f"The layers of '{config.model}' are used as they are. Received: --{name}="
            f"{getattr(config, name)}. Leave --{name} out.",
        )
    training.check_margin(config.training_margin, config.head, config.head != "linear" or not is_own)
    heads = MARGIN_FORM_HEADS.get(config.margin_form, ())
    check(
        config.margin_form is None or not is_own or config.head in heads,
        f"--margin_form={config.margin_form} is for the head {' or '.join(heads)}. Received: "
        f"--head={config.head}. Use --head={''.join(heads[:1])}, or leave --margin_form out.",
    )
    check_framework(config)
    check_optimizer(config)
    check_epsilon_schedule(config)
    check_periods(config)
    check_averages(config)
    check_images(config)
    if config.input_range:
        check_input_range(config.input_range, "--input_range")
        check(
            not is_own,
            f"The model '{config.model}' takes images in [0, 1]. Received: --input_range="
            f"{','.join(f'{value:g}' for value in config.input_range)}. Leave it out: it is for "
            "--model=module:function and --model=FILE.keras.",
        )
    try:
        re.compile(config.freeze or "")  # whether it matches a layer is known when the model is built
    except re.error as error:
        raise InputError(
            f"--freeze must be a regular expression. Received: --freeze={config.freeze} ({error})."
        ) from None
    check(
        config.early_stopping is None or config.validation_size != 0,
        "--early_stopping looks at validation images. Received: --validation_size=0. Hold some out, or "
        "leave --early_stopping out.",
    )


def given(config, name: str) -> bool:
    """Whether a setting differs from its default."""
    return getattr(config, name) != type(config).__dataclass_fields__[name].default


def depends_on_epochs(config) -> str | None:
    """Why the first epochs of a run would be others if it had more of them; `None` if they would not."""
    if config.lr_schedule not in ("constant", "piecewise", "multistep"):
        return f"--lr_schedule={config.lr_schedule} ends with the last epoch"
    if config.epsilon_schedule != "constant":
        return f"--epsilon_schedule={config.epsilon_schedule} depends on the number of epochs"
    if config.framework_options.takes_updates:
        return f"the framework '{config.framework}' depends on the number of epochs"
    return None


def check_framework(config) -> None:
    """Refuses what the framework cannot do, and what would have no effect."""
    known = training.options_of(config.framework).__dataclass_fields__
    for name, value in config.options.items():
        others = [other for other, own in training.OPTIONS.items() if name in own.__dataclass_fields__]
        check(
            name in known or not others,
            f"--{name} is an option of {' and '.join(others)}. Received: --framework={config.framework} "
            f"--{name}={value}. Leave --{name} out, or use --framework={(others or [''])[0]}.",
        )
    options = config.framework_options
    options.check_bn_mode(config.bn_mode)
    options.check_attack_smoothing(config.attack_smoothing)
    if not options.crafts:
        for name in ATTACK_OPTIONS:
            check(
                not given(config, name),
                f"The framework '{options.name}' does not use a training attack. Received: "
                f"--{name}={getattr(config, name)}. Leave --{name} out; --validation_attack sets the attack "
                "of the validation.",
            )
        return
    check(
        config.epsilon > 0,
        f"The framework '{options.name}' needs --epsilon larger than 0. Received: --epsilon=0. "
        "Use --framework=standard to train on clean images.",
    )
    settings = picked(config, "norm", "restarts", "start")
    settings |= {"steps": config.attack_steps, "logit_scale": config.attack_scale, "kind": config.attack}
    options.check_attack(**settings)
    for name in ("step_size", "step_size_warmup", "start", "epsilon_schedule"):
        check(
            config.attack != "apgd-ce" or not given(config, name),
            f"APGD chooses its start and steps itself, in one ball. Received: --attack=apgd-ce "
            f"--{name}={getattr(config, name)}. Leave --{name} out.",
        )


def check_optimizer(config) -> None:
    """Learning-rate drops are in order, and settings of other optimizers and schedules are left out."""
    training.check_rising(config.lr_drops, "--lr_drops", gt=0)
    optimizer, arguments = training.parse_optimizer(config.optimizer)
    for argument, name in OPTIMIZER_FLAGS.items():
        check(
            argument not in arguments or (name in SGD_OPTIONS and optimizer != "sgd"),
            f"The optimizer's {argument} has a flag of its own. Received: "
            f"--optimizer={config.optimizer}. Use --{name}.",
        )
    for name in SGD_OPTIONS:
        check(
            optimizer == "sgd" or not given(config, name),
            f"--{name} is an option of sgd. Received: --optimizer={config.optimizer} "
            f"--{name}={getattr(config, name)}. Leave --{name} out, or use --optimizer=sgd.",
        )
    falling = ("cosine", "piecewise", "multistep")
    used_by: dict[str, tuple[str, ...]] = {"lr_min": falling, "lr_warmup": ("constant", *falling)}
    for name in ("lr_end_factor", "lr_rise", "momentum_range"):
        used_by[name] = ("one_cycle",)
    if not config.lr_warmup:
        used_by["lr_start_factor"] = ("one_cycle",)
    for name, schedules in used_by.items():
        check(
            config.lr_schedule in schedules or not given(config, name),
            f"--{name} is an option of --lr_schedule={' and '.join(schedules)}. Received: "
            f"--lr_schedule={config.lr_schedule} --{name}={getattr(config, name)}. Leave --{name} out.",
        )
    check(
        config.lr_warmup < config.period_ends[0] and config.lr_min <= config.learning_rate,
        "The warm-up ends before the first period, and the lowest rate is not above --learning_rate. "
        f"Received: --lr_warmup={config.lr_warmup:g} --lr_min={config.lr_min:g}. Use smaller values.",
    )
    values = config.momentum_range
    check(
        values == () or (len(values) == 2 and 0 < values[0] <= values[1] < 1),
        "--momentum_range is the momentum at the peak of the rate and at its ends: two rising numbers "
        f"below 1. Received: --momentum_range={','.join(map(str, values))}. Use, for example, 0.85,0.95.",
    )
    check(
        config.lr_schedule != "one_cycle" or not values or not given(config, "momentum"),
        "one_cycle moves the momentum within --momentum_range. Received: "
        f"--momentum={config.momentum:g}. Leave it out, or add --momentum_range= for a constant one.",
    )
    check(
        config.batch_size % config.accumulate == 0,
        "--accumulate divides a batch into parts of the same size. Received: "
        f"--batch_size={config.batch_size} --accumulate={config.accumulate}. Use a divisor, such as "
        f"--accumulate={math.gcd(config.batch_size, config.accumulate)}.",
    )


def check_epsilon_schedule(config) -> None:
    """A schedule rises from a smaller epsilon to the target."""
    if config.epsilon_schedule == "constant":
        useless = [n for n in SCHEDULE_OPTIONS if given(config, n)]
        check(
            not useless,
            f"A constant epsilon does not rise. Received: --{(useless or [''])[0]}. "
            "Use --epsilon_schedule=linear.",
        )
        return
    check(
        config.framework_options.has_epsilon,
        f"The framework '{config.framework}' has no epsilon. Received: "
        f"--epsilon_schedule={config.epsilon_schedule}. Leave it out, or use --framework=pgd_at.",
    )
    check(
        config.epsilon_max is None or config.epsilon_warmup is None,
        "--epsilon_max and --epsilon_warmup both set how fast epsilon rises. Received: "
        f"--epsilon_max={config.epsilon_max} --epsilon_warmup={config.epsilon_warmup}. Use one of them.",
    )
    if config.epsilon_max is not None:
        check_epsilon(config.norm, config.epsilon_max, "--epsilon_max")
    highest = config.epsilon if config.epsilon_max is None else config.epsilon_max
    training.check_epsilon_order(config.epsilon_min, config.epsilon, highest)
    training.check_epsilon_delay(config.epsilon_delay, config.period_ends[0])


def check_periods(config) -> None:
    """Periods are whole epochs, and an ensemble needs several."""
    resets = config.lr_resets
    training.check_rising(resets, "--lr_resets", gt=0)
    check(
        all(reset == int(reset) and reset < config.epochs for reset in resets),
        "--lr_resets are whole epochs before the last. "
        f"Received: --lr_resets={','.join(f'{r:g}' for r in resets)} --epochs={config.epochs}.",
    )
    check(
        not config.ensemble or len(resets) > 0,
        "An ensemble has one model per period, and without --lr_resets there is one period. Received: "
        "--ensemble. Add --lr_resets, such as --lr_resets=100,150 of 200 epochs.",
    )


def check_averages(config) -> None:
    """Only one average is shipped, and AWP needs weights that can be perturbed."""
    check(
        config.swa_start is None or not config.ema,
        "--swa_start and --ema are two averages of the weights, and one is shipped. Received: "
        f"--swa_start={config.swa_start} --ema={config.ema:g}. Use one of them.",
    )
    for name in ("ema_start", "ema_constant", "ema_statistics"):
        check(
            config.ema > 0 or not given(config, name),
            f"--{name} is an option of --ema. Received: no --ema. Add --ema=0.995, or leave --{name} out.",
        )
    for name in ("swa_start", "ema_start", "awp_start"):
        check(
            (getattr(config, name) or 0) < config.epochs,
            f"--{name} must lie before the last epoch. Received: --{name}={getattr(config, name)} "
            f"--epochs={config.epochs}. Begin earlier, or train for longer.",
        )
    check(
        bool(config.awp_gamma) or not config.awp_start,
        f"--awp_start sets the start of --awp_gamma. Received: --awp_start={config.awp_start:g} and no "
        "--awp_gamma. Add --awp_gamma=0.005, or leave --awp_start out.",
    )
    training.check_perturbation(config.awp_gamma, None if config.head == "linear" else config.weight_norm)


def check_images(config) -> None:
    """Extra images come from a file, sizes of images go together, and only folders have files to skip."""
    if config.extra_data is not None:
        later = config.extra_later
        for file in config.extra_data.split(","):
            check_extra_file(file, config.extra_labels_by is not None)
        check(
            not later or (len(later) == 2 and 0 <= later[0] < config.epochs and 0 < later[1] <= 1),
            "--extra_later is an epoch before the last, and the share from then on, such as 6000,0.875. "
            f"Received: {','.join(f'{number:g}' for number in later)} of --epochs={config.epochs}.",
        )
    for name in ("extra_labels_by", "extra_fraction", "extra_later", "extra_smoothing"):
        check(
            config.extra_data is not None or not given(config, name),
            f"--{name} is about the images of --extra_data. Received: no --extra_data. Name it.",
        )
    check(
        config.resize_size is None or (config.image_size or 0) in range(1, config.resize_size + 1),
        "--resize_size is the shorter side of an image from which the central square of --image_size is cut. "
        f"Received: --resize_size={config.resize_size} --image_size={config.image_size}. Give, for example, "
        "--resize_size=256 --image_size=224.",
    )
    check(
        not config.skip_corrupt or config.dataset.startswith("folder:"),
        "--skip_corrupt is about files in folders. Received: --skip_corrupt "
        f"--dataset={config.dataset}. Leave --skip_corrupt out.",
    )
