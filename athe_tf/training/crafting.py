"""What crafting needs: attacks that training can use, and the mode of batch normalization and dropout.

| mode | statistics used to normalize | moving statistics | used by |
|---|---|---|---|
| `eval` | moving statistics | unchanged | TRADES, HE, MART, PAS |
| `train` | batch statistics | updated in every pass | FastAT, FreeAT, Rice et al. |
| `batch_no_update` | batch statistics | unchanged | Gowal et al. |
| `frozen_clean` | statistics of the clean batch | unchanged | LLR |

Dropout is active in all but `eval`.
"""

import contextlib
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class TrainingAttack(Protocol):
    """An attack that a framework can change: its loss, its radius, its start. `PGD` and its variants are.

    Any `Attack` can craft for a framework that takes its images as they are, such as `PGDAT`. An epsilon
    schedule, TRADES and the frameworks of one step need one of these.

    Example:

    >>> isinstance(athe_tf.attacks.PGD(8 / 255), TrainingAttack)
    True
    >>> isinstance(athe_tf.attacks.APGD(8 / 255), TrainingAttack)
    False
    """

    steps: int
    restarts: int
    step_size: Any
    start: str
    logit_scale: Any

    @property
    def threat(self) -> Any:
        """The threat model: norm and radius."""

    @property
    def chosen_start(self) -> str | None:
        """The start that was given to the constructor, if one was."""

    def __call__(self, model, x, y, *, ids: Any = None, seed: Any = 0) -> Any:
        """The adversarial examples."""

    def objective(self, victim, y, inputs: list) -> Any:
        """From images to the loss that the attack climbs, and the logits."""

    def with_loss(self, loss) -> "TrainingAttack":
        """A copy that climbs another loss."""

    def with_epsilon(self, epsilon) -> "TrainingAttack":
        """A copy in another ball, with steps in proportion."""

    def with_default_start(self, start: str) -> "TrainingAttack":
        """A copy with this start, or the attack itself if a start was chosen."""


class NamedAttacks:
    """Makes the attacks that a framework was given by name, as `TRADES(net, "pgd-10", epsilon=8 / 255)`.

    `"pgd-N"` gets the step size that `bin/train` uses with the framework, other attacks their own.

    Args:
        epsilon: Their radius; `None` if it was not given.
        norm: Their norm; `None` if it was not given.
        options: The options of the framework.
    """

    def __init__(self, epsilon: float | None, norm: str | None, options: FrameworkOptions):
        self.epsilon, self.norm, self.options = epsilon, norm, options
        self.used = False

    def get(self, attack: Attack | str | None, argument: str) -> Attack | None:
        """The attack of a name; anything else is returned unchanged."""
        if not isinstance(attack, str):
            return attack
        self.used = True
        if self.epsilon is None:
            raise InputError(
                f"An attack by name needs `epsilon`. Received: {argument}={attack!r} without it. Give its "
                "radius, such as epsilon=8/255."
            )
        settings: dict = {"epsilon": self.epsilon} | ({} if self.norm is None else {"norm": self.norm})
        if argument == "attack" and registry.parse_name(attack)[0] == "pgd":
            settings["step_size"] = self.options.step_size(self.epsilon)
        return registry.get(attack, **settings)

    def check_used(self) -> None:
        """Raises `InputError` if there is an epsilon or a norm, and no attack that they belong to."""
        given = [f"{name}={value!r}" for name, value in (("epsilon", self.epsilon), ("norm", self.norm))]
        check(
            self.used or (self.epsilon, self.norm) == (None, None),
            "`epsilon` and `norm` belong to attacks given by name, and this framework was given none. "
            f"Received: {', '.join(given)}. Name the attack, such as attack='pgd-10', or leave them out.",
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
