"""What crafting needs: attacks by name, and the mode of batch normalization and dropout.

| mode | statistics used to normalize | moving statistics | used by |
|---|---|---|---|
| `eval` | moving statistics | unchanged | TRADES, HE, MART, PAS |
| `train` | batch statistics | updated in every pass | FastAT, FreeAT, Rice et al. |
| `batch_no_update` | batch statistics | unchanged | Gowal et al. |
| `frozen_clean` | statistics of the clean batch | unchanged | LLR |

Dropout is active in all but `eval`.
"""

import contextlib

from athe_tf.attacks import registry
from athe_tf.attacks.engine.attack import Attack
from athe_tf.layers.batch_norm import (
    batch_statistics_without_update,
    capture_batch_statistics,
    frozen_batch_statistics,
    third_party_batch_norms,
)
from athe_tf.training.options import FrameworkOptions
from athe_tf.utils.errors import InputError, check


def named_attack(
    attack: Attack | str | None,
    argument: str,
    epsilon: float | None,
    norm: str | None,
    options: FrameworkOptions,
) -> Attack | None:
    """The attack of a name, as in `TRADES(net, "pgd-10", epsilon=8 / 255)`; others are returned unchanged.

    `"pgd-N"` gets the step size that `bin/train` uses with the framework, other attacks their own.
    """
    if not isinstance(attack, str):
        return attack
    if epsilon is None:
        raise InputError(
            f"An attack by name needs `epsilon`. Received: {argument}={attack!r} without it. Give its "
            "radius, such as epsilon=8/255."
        )
    settings: dict = {"epsilon": epsilon} | ({} if norm is None else {"norm": norm})
    if argument == "attack" and registry.parse_name(attack)[0] == "pgd":
        settings["step_size"] = options.step_size(epsilon)
    return registry.get(attack, **settings)


def check_radius_used(epsilon: float | None, norm: str | None, *attacks: Attack | str | None) -> None:
    """Raises `InputError` if there is an epsilon or a norm, and no attack by name that they belong to."""
    check(
        (epsilon, norm) == (None, None) or any(isinstance(attack, str) for attack in attacks),
        "`epsilon` and `norm` belong to attacks given by name, and this framework was given none. "
        f"Received: {epsilon=}, {norm=}. Name the attack, such as attack='pgd-10', or leave them out.",
    )


def check_batch_norm(mode: str, net) -> None:
    """Raises `InputError` for a mode that the model's batch normalization does not support.

    Frozen layers use their moving statistics in every mode.
    """
    foreign = any(layer.trainable for layer in third_party_batch_norms(net))
    if foreign and mode in ("batch_no_update", "frozen_clean"):
        raise InputError(
            f"bn_mode='{mode}' needs athe_tf.BatchNorm, and this model has keras.layers.BatchNormalization, "
            "which cannot use batch statistics without updating its moving statistics. Use bn_mode='eval', "
            "freeze these layers, or build the model with athe_tf.BatchNorm."
        )


@contextlib.contextmanager
def crafting_mode(mode: str, net, x):
    """Yields the value of `training` for `net(..., training=...)` inside the context."""
    if mode == "batch_no_update":
        with batch_statistics_without_update():
            yield True
    elif mode == "frozen_clean":
        with capture_batch_statistics(update=False) as statistics:
            net(x, training=True)
        with frozen_batch_statistics(statistics):
            yield True
    else:
        yield mode == "train"
