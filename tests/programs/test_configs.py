"""Every file in configs/ is a run that would start and says what it is for; twins on digits agree with it."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

from athe_tf.programs.config import TrainConfig
from athe_tf.programs.recipes import with_recipes
from athe_tf.programs.train import PROGRAM
from athe_tf.utils.errors import InputError

FOLDER = pathlib.Path(__file__).parents[2] / "configs"
FILES = sorted(FOLDER.glob("*.flags"))
NAMES = [path.stem for path in FILES]
HEADS = ("", "_he", "_mhe")
TWINS = {name: f"digits_{name.removeprefix('cifar_')}" for name in NAMES if not name.startswith("digits_")}
# The tables of the HE paper; all others are of other papers.
HE_TABLES = {f"cifar_{f}{h}" for f in ("pgd_at", "alp", "trades", "fast_at", "free_at") for h in HEADS}
HE_TABLES |= {f"cifar_pgd_at_{h}" for h in ("fn", "wn", "fn_wn", "he_aa", "he_aa_wrn34_20")}
# By parts of a config's name; the others are named after their framework.
FRAMEWORKS = {"pas": "pgd_at", "nfgsm": "n_fgsm", "gradalign": "gradalign"}
FRAMEWORKS |= dict.fromkeys(("wang2023", "score", "bartoldson2024", "gowal2020", "rebuffi2021"), "trades")
FRAMEWORKS |= {"n_fgsm": "n_fgsm", "liet": "liet"}
DATASETS = {
    "robustbench": "cifar10",
    "cifar": "cifar10",
    "mnist": "mnist",
    "imagenet": "imagenet2012",
    "digits": "digits",
}


def read(name):
    return PROGRAM.read(["bin/train", f"--flagfile={FOLDER / name}.flags"])[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_config_is_valid_and_its_header_says_all(name):
    config = read(name)
    lines = (FOLDER / f"{name}.flags").read_text().splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert lines[: len(header)] == header and re.fullmatch(r"# [A-Z].*\.", header[0])
    labels = [match[1] for line in header if (match := re.match(r"# (\w+): +\S", line))]
    assert labels == ["Purpose", "Expected", "Cost", "Command"]
    assert header[-1].endswith(f"bin/train --flagfile=configs/{name}.flags --workdir=runs/{name}")
    if name in HE_TABLES:
        assert re.search(r"Table \d+, in %|Section 4\.1, in %", "\n".join(header))
    assert config.dataset == DATASETS[name.split("_")[0]]
    named = ("standard", "pgd_at", "alp", "trades", "fast_at", "free_at", "mart", "llr", "cure", *FRAMEWORKS)
    part = next(part for part in named if part in name)
    assert config.framework == FRAMEWORKS.get(part, part)


def flags_in(path):
    """The lines of a config, and what the files that it includes set before."""
    own = [line for line in path.read_text().splitlines() if line.startswith("--")]
    included = [line for line in own if line.startswith("--flagfile=")]
    before = with_recipes([f"--flagfile={path.parent / line.partition('=')[2]}" for line in included])
    return own, included, dict(line.partition("=")[::2] for line in before)


def test_configs_share_what_they_have_in_common():
    bases = set(FOLDER.glob("base/*.flags"))
    used = set()
    for path in [*FILES, *bases]:
        own, included, before = flags_in(path)
        repeated = [line for line in own if line.partition("=")[::2] in before.items()]
        assert own[: len(included)] == included and not repeated, path
        used |= {(path.parent / line.partition("=")[2]).resolve() for line in included}
    assert bases <= used


def passes(config):
    """Network passes of a step, as the docstrings of the frameworks count them."""
    steps, times = config.attack_steps, 2 if config.awp_gamma else 1
    if config.framework in ("gradalign", "liet"):
        return {"gradalign": 11, "liet": 7}[config.framework]
    if config.framework == "free_at":
        return 3 * config.framework_options.replays
    if config.framework in ("standard", "cure"):
        return {"standard": 3, "cure": 15}[config.framework]
    crafting = {"llr": 2 * steps + 3, "trades": 2 * steps + 1}.get(config.framework, 2 * steps)
    loss = {"llr": 12, "trades": 6, "mart": 6}.get(config.framework, 3)
    return crafting + times * loss


@pytest.mark.parametrize("name", sorted({n for n in NAMES if "digits" not in n} - HE_TABLES))
def test_the_cost_of_a_step_is_told(name):
    assert f"{passes(read(name))} network passes per step" in (FOLDER / f"{name}.flags").read_text()


def choices_of(config):
    """The options of the framework, without weights that were chosen for the data set."""
    tuned = {"gamma_weight", "slope_weight", "curvature_weight", "curvature_step"}
    options = dataclasses.asdict(config.framework_options)
    return {name: value for name, value in options.items() if name not in tuned}


def test_every_config_on_digits_has_its_original():
    assert {name for name in NAMES if name.startswith("digits_")} <= set(TWINS.values())


@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if twin in NAMES])
def test_a_config_and_its_twin_on_digits_agree(name):
    one, other = read(name), read(TWINS[name])
    settings = [
        "framework", "head", "scale", "training_margin", "attack_steps", "start", "norm",
        "guarded_drop", "lr_schedule", "optimizer", "activation", "awp_gamma", "ensemble", "epsilon_schedule",
    ]  # fmt: skip
    if name.startswith("mnist_"):
        settings.remove("attack_steps")  # 50 there, for which digits are too small
    for setting in settings:
        assert getattr(one, setting) == getattr(other, setting), setting
    assert choices_of(one) == choices_of(other)
    assert len(one.period_ends) == len(other.period_ends)
    ratios = [None if c.epsilon_max is None else round(c.epsilon_max / c.epsilon, 6) for c in (one, other)]
    assert ratios[0] == ratios[1]


def test_all_digits_configs_have_the_same_epsilon():
    assert len({read(name).epsilon for name in NAMES if name.startswith("digits_")}) == 1


@pytest.mark.parametrize("name", sorted(HE_TABLES))
def test_recipes_are_the_papers_text_the_released_one_and_table_3(name):
    c = read(name)
    recipe = (c.model, c.epochs, c.lr_drops if c.lr_schedule == "piecewise" else (), c.weight_decay)
    if "_aa" in name:
        model = "wrn-34-20" if name.endswith("20") else "wrn-34-10"
        assert (*recipe, c.scale, c.margin) == (model, 77, (74.0,), 5e-4, 10.0, 0.2)
    elif c.framework in ("fast_at", "free_at"):
        epochs, rate = {"fast_at": (30, 0.2), "free_at": (10, 0.04)}[c.framework]
        assert recipe == ("preact_resnet18_fast", epochs, (), 5e-4)
        assert (c.lr_schedule, c.learning_rate) == ("cyclic", rate)
        assert c.framework == "fast_at" or c.framework_options.replays == 8
    else:
        assert recipe == ("wrn-34-10", 100, (75.0, 90.0), 2e-4)
        assert (c.step_size, c.attack_steps) == (2 / 255, 10)
    released = ("straight_through", 0.031, 0.007)
    assert "_aa" not in name or (c.weight_norm, c.epsilon, c.step_size) == released
    assert "_aa" in name or c.epsilon == 8 / 255
    assert (c.batch_size, c.momentum) == (128, 0.9)
    expected_margin = 0.1 if c.head == "mhe" else 0.2 if c.head == "he" and "fn" not in name else 0.0
    assert c.training_margin == expected_margin
    assert c.head == "linear" or c.scale == (10.0 if "_aa" in name else 15.0)


# Read in the code of the authors; what a recipe shares with the one before it is written once.
TRADES_2020 = {
    "model": "dm_wrn-28-10", "activation": "silu", "attack_steps": 10, "start": "uniform", "epochs": 400,
    "nesterov": True, "weight_decay": 5e-4, "decay_variables": "all_but_norm", "ema": 0.995,
    "ema_constant": False, "ema_statistics": "copied", "bn_mode": "batch_no_update", "bn_momentum": 0.99,
    "bn_copy_first": True, "epsilon": 8 / 255, "augmentation": "pad_crop_flip", "attack_smoothing": 0.0,
    "validation_attack": "cw-linf-40", "validation_size": 1024, "standardize": True,
}  # fmt: skip
GOWAL = TRADES_2020 | {
    "beta": 6, "attack": "pgd-adam", "step_size": 0.1, "learning_rate": 0.4, "lr_schedule": "cosine",
    "lr_warmup": 10, "lr_per_epoch": False, "momentum": 0.9, "batch_size": 1024, "ema_start": 0,
    "label_smoothing": 0.0, "attack_from": "prediction",
}  # fmt: skip
WANG = TRADES_2020 | {
    "beta": 5, "divergence": "kl", "attack": "pgd", "step_size": 2 / 255, "learning_rate": 0.2,
    "lr_schedule": "one_cycle", "lr_rise": 0.025, "lr_per_epoch": True, "momentum_range": (0.85, 0.95),
    "batch_size": 512, "ema_start": 10, "label_smoothing": 0.1,
}  # fmt: skip
BENCHMARK = {
    "model": "resnet18", "standardize": False, "batch_size": 128, "learning_rate": 0.1, "lr_rise": 0.3,
    "lr_schedule": "one_cycle", "lr_per_epoch": True, "momentum_range": (0.85, 0.95), "nesterov": False,
    "weight_decay": 5e-4, "decay_variables": "all", "epochs": 100, "ema": 0.9995, "ema_constant": True,
    "ema_statistics": "averaged", "ema_start": 0, "label_smoothing": 0.4, "attack_smoothing": 0.4,
    "bn_mode": "train", "validation_attack": "pgd-10", "guarded_drop": 0.0, "epsilon": 8 / 255,
    "attack_step_size": 8 / 255, "augmentation": "pad_crop_flip",
}  # fmt: skip
PUBLISHED = {
    "wang2023": WANG,
    "score": WANG | {"beta": 4, "divergence": "mse", "label_smoothing": 0.0},
    "bartoldson2024": WANG
    | {"model": "dm_wrn-82-8", "learning_rate": 0.1, "batch_size": 2048, "epochs": 6820, "ema_start": 170.5},
    "gowal2020": GOWAL,
    "rebuffi2021": GOWAL | {"cutmix": 1, "attack_from": "label"},
    "fastat_pgd_at_wa": BENCHMARK
    | {"attack_steps": 10, "attack_step_size": 2 / 255, "bn_mode": "eval", "attack_smoothing": 0.0},
    "fastat_fast_at": BENCHMARK | {"attack_step_size": 10 / 255},
    "fastat_n_fgsm": BENCHMARK | {"noise": 2},
    "fastat_gradalign": BENCHMARK | {"alignment": 0.2, "attack_smoothing": 0.0},
    "fastat_free_at": BENCHMARK | {"replays": 4, "epochs": 50, "attack_smoothing": 0.0},
    "fastat_liet": BENCHMARK
    | {"label_smoothing": 0.0, "relaxation": 0.6, "consistency": 100, "refresh": 20, "attack_smoothing": 0.0},
}


@pytest.mark.parametrize("head", ["", "_he"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_recipes_of_robustbench_have_the_values_of_the_published_code(name, head):
    config = read(f"robustbench_{name}{head}")
    homes = config, config.framework_options
    found = {s: getattr(homes[not hasattr(config, s)], s) for s in PUBLISHED[name]}
    assert found == PUBLISHED[name]
    assert (config.head, config.training_margin) == (("he", 0.2) if head else ("linear", 0.0))
    text = " ".join((FOLDER / f"robustbench_{name}{head}.flags").read_text().replace("#", "").split())
    assert "The end numbers were not reproduced here" in text


def test_reading_a_config_starts_no_tensorflow():
    code = (
        "import sys; sys.path.insert(0, '.'); from tests.programs.test_configs import read, NAMES; "
        "[read(name) for name in NAMES]; assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=FOLDER.parent)


# -- combinations that cannot work --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"framework": "free_at", "restarts": 3}, r"one start. Received: steps=1, restarts=3. Use `replays`"),
        ({"framework": "fast_at", "restarts": 2}, "one attack step from one start"),
        (
            {"framework": "fast_at", "steps": 10},
            r"one attack step .* Received: steps=10.*Use 'pgd_at'",
        ),
        ({"framework": "free_at", "steps": 10}, r"Received: steps=10, restarts=1. Use `replays` for more"),
        ({"framework": "free_at", "bn_mode": "eval"}, "crafts with bn_mode='train'.*Leave it out"),
        ({"framework": "standard", "bn_mode": "eval"}, "has no pass for crafting.*Leave it out"),
        ({"framework": "free_at", "start": "uniform"}, "decides itself where its attack starts"),
        ({"framework": "free_at", "logit_scale": "1"}, "attacks with the training loss itself"),
        ({"framework": "free_at", "norm": "l1"}, "free_at' exists for linf and l2"),
        ({"framework": "free_at", "replays": 0}, "replays must be at least 1"),
        ({"head": "linear", "margin": 0.2}, "A margin needs a hypersphere head"),
        ({"framework": "alp", "pairing": -1.0}, "pairing must be finite and not negative"),
        ({"framework": "alp", "pairing_form": "l1"}, r"Unknown pairing_form 'l1'.*Available: l2, mse"),
        ({"head": "mhe", "margin_form": "arc"}, "--margin_form=arc is for the head he. Received: --head=mhe"),
        ({"head": "he", "margin_form": "angle"}, "--margin_form=angle is for the head mhe.*Use --head=mhe"),
        ({"head": "mhe", "margin_form": "cosine"}, "--margin_form=cosine is for the head he or fn or wn"),
        ({"ema": 1.0}, r"--ema must lie in \[0, 1\)"),
        ({"guard_drop": 20.0}, r"--guard_drop must lie in \[0, 1\)"),
        ({"clip_norm": 0.0}, "--clip_norm must be a finite number larger than 0"),
        ({"early_stopping": 0}, "--early_stopping must be a finite number larger than 0"),
        ({"early_stopping": 3, "validation_size": 0}, "--early_stopping looks at validation images"),
        ({"precision": "float16"}, "Unknown --precision 'float16'.*mixed_float16"),
        ({"alignment": 0.2}, r"--alignment is an option of gradalign. Received: --framework=pgd_at.*Leave"),
        ({"framework": "n_fgsm", "start": "zero"}, "decides itself where its attack starts.*Leave it out"),
        ({"framework": "llr", "bn_mode": "eval"}, "crafts with bn_mode='frozen_clean'.*Leave it out"),
        (
            {"framework": "cure", "steps": 5},
            "'cure' does not use a training attack.*--steps=5. Leave",
        ),
        ({"framework": "standard", "logit_scale": "1"}, "'standard' does not use.*--logit_scale=1"),
        ({"beta": 3.0}, "--beta is an option of trades and mart. Received: --framework=pgd_at --beta=3.0"),
        ({"framework": "trades", "replays": 3}, "Leave --replays out, or use --framework=free_at"),
        ({"framework": "trades", "start": "zero"}, "zero gradient at the clean image.*Leave it out"),
        ({"framework": "llr", "start": "zero"}, "zero gradient at the clean image"),
        ({"optimizer": "adam", "nesterov": True}, "--nesterov is an option of sgd.*Leave --nesterov out"),
        ({"lr_drops": (-1.0,)}, "--lr_drops must be in rising order and larger than 0.*Received: -1"),
        ({"lr_drops": (90.0, 75.0)}, "--lr_drops must be in rising order"),
        ({"extra_fraction": 0.5}, "--extra_fraction is about the images of --extra_data.*Name it"),
        ({"awp_start": 5.0}, "Add --awp_gamma"),
        ({"jit_compile": True, "deterministic": True}, "does not compile a deterministic step"),
        ({"awp_gamma": 0.01, "awp_start": 500.0}, "--awp_start must lie before the last epoch"),
        ({"learning_rate": float("inf")}, "finite number larger than 0. Received: --learning_rate=inf"),
        ({"logit_scale": "inf"}, "--logit_scale must be 'model' or a finite number. Received: .*=inf"),
        ({"logit_scale": "nan"}, "--logit_scale must be 'model' or a number larger than 0. Received: .*=nan"),
        ({"weight_decay": float("nan")}, "must be finite and not negative. Received: --weight_decay=nan"),
        ({"validation_attack": "autoattack"}, "for bin/evaluate.*Use an attack such as pgd-10 or swift"),
        ({"validation_attack": "pgd10"}, "Unknown attack 'pgd10'. Did you mean 'pgd-10'"),
        ({"framework": "llr", "variant": "gama_only"}, "Did you mean 'gamma_only'"),
        ({"framework": "llr", "gamma_weight": -1.0}, "gamma_weight must be finite and not negative"),
        ({"epsilon_schedule": "quadratic"}, "Unknown --epsilon_schedule 'quadratic'"),
        ({"epsilon_max": 0.1}, "A constant epsilon does not rise. Received: --epsilon_max"),
        ({"epsilon_min": 0.01}, "Received: --epsilon_min. Use --epsilon_schedule=linear"),
        ({"epsilon_schedule": "linear", "framework": "standard"}, "has no epsilon"),
        ({"epsilon_schedule": "linear", "epsilon_max": 16.0}, r"must not exceed 1 in linf.*=16/255\?"),
        ({"epsilon_schedule": "linear", "epsilon_max": 0.01}, "stops at epsilon"),
        ({"epsilon_schedule": "linear", "epsilon_max": 0.1, "epsilon_warmup": 1.0}, "Use one of them"),
        ({"lr_resets": (5.5,)}, "--lr_resets are whole epochs before the last"),
        ({"lr_resets": (100.0,)}, "before the last. Received: --lr_resets=100 --epochs=100"),
        ({"ensemble": True}, r"without --lr_resets there is one period.*Add --lr_resets"),
        ({"swa_start": 5, "ema": 0.9}, "Use one of them"),
        ({"swa_start": 100}, "--swa_start must lie before the last epoch"),
        ({"awp_gamma": 1.0}, r"--awp_gamma must lie in \[0, 1\)"),
        ({"awp_gamma": 0.01, "head": "he", "weight_norm": "project"}, "Use weight_norm='differentiable'"),
    ],
)
def test_a_bad_combination_is_refused_with_a_remedy(settings, message):
    with pytest.raises(InputError, match=message):
        TrainConfig.from_flags(**settings)


@pytest.mark.parametrize(
    "framework, steps, step_size, drop",
    [
        ("pgd_at", 10, 0.05, 0.0),
        ("alp", 10, 0.05, 0.0),
        ("trades", 10, 0.05, 0.0),
        ("fast_at", 1, 0.25, 0.2),
        ("free_at", 1, 0.2, 0.0),
        ("mart", 10, 0.05, 0.0),
        ("llr", 10, 0.05, 0.0),
    ],
)
def test_what_is_left_out_is_the_frameworks_own(framework, steps, step_size, drop):
    config = TrainConfig.from_flags(framework=framework, epsilon=0.2)
    assert (config.attack_steps, config.attack_step_size, config.guarded_drop) == (steps, step_size, drop)
    assert TrainConfig.from_flags(framework=framework, epsilon=0.2, guard_drop=0.0).guarded_drop == 0.0
    assert TrainConfig.from_flags(framework=framework, epsilon=0.2, step_size=0.01).attack_step_size == 0.01


def test_nfgsm_steps_by_epsilon_and_the_code_of_llr_by_a_tenth():
    assert TrainConfig.from_flags(framework="n_fgsm", epsilon=0.2).attack_step_size == 0.2
    assert TrainConfig.from_flags(framework="llr", preset="code").attack_step_size == 0.1


def test_periods_end_at_the_resets_and_at_the_end():
    assert TrainConfig.from_flags(epochs=200, lr_resets=(100.0, 150.0)).period_ends == (100, 150, 200)
    assert TrainConfig.from_flags(epochs=7).period_ends == (7,)
