"""The options of the attack inside training: choices, defaults, help texts and bounds, without TensorFlow."""

import dataclasses

from athe_tf.utils.choices import NORMS, STARTS
from athe_tf.utils.options import option


@dataclasses.dataclass(frozen=True)
class AttackOptions:
    """The attack inside training."""

    norm: str = option("linf", "Norm of the threat model.", choices=NORMS)
    epsilon: float = option(8 / 255, "Radius of the threat model in pixels of [0, 1], for example 8/255.")
    step_size: float | None = option(None, "Length of a step, for epsilon. [the framework's]", above=0)
    steps: int | None = option(None, "Attack steps. [the framework's: 10, or 1]", least=0)
    start: str | None = option(None, "Start of the attack. [the framework's]", choices=STARTS)
    restarts: int = option(1, "Attack restarts in training.", least=1)
    logit_scale: str | float = option(
        "model", "Scale of the logits that the attack sees: model, or a number."
    )
