"""How batch normalization and dropout behave while adversarial examples are crafted.

| mode | statistics used to normalise | moving statistics | used by |
|---|---|---|---|
| `eval` | moving statistics | unchanged | TRADES, HE, MART, PAS |
| `train` | batch statistics | updated in every pass | FastAT, FreeAT, Rice et al. |
| `batch_no_update` | batch statistics | unchanged | Gowal et al. |
| `frozen_clean` | statistics of the clean batch | unchanged | LLR |

Dropout is active in all but `eval`.
"""

import contextlib

from athe_tf.layers.batch_norm import (
    batch_statistics_without_update,
    capture_batch_statistics,
    foreign_batch_norms,
    frozen_batch_statistics,
)
from athe_tf.utils.errors import InputError


def check_batch_norm(mode: str, net) -> None:
    """Raises `InputError` for a mode that the model's batch normalization does not support.

    Frozen layers use their moving statistics in every mode.
    """
    if mode in ("batch_no_update", "frozen_clean") and any(
        layer.trainable for layer in foreign_batch_norms(net)
    ):
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
