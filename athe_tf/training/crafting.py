"""How batch normalisation and dropout behave while adversarial images are crafted.

| mode | statistics that normalise | moving statistics | who does so |
|---|---|---|---|
| `eval` | moving ones | unchanged | TRADES, HE, MART, PAS |
| `train` | the batch's | updated by every pass | FastAT, FreeAT, Rice et al. |
| `batch_no_update` | the batch's | unchanged | Gowal et al. |
| `frozen_clean` | those of the clean batch | unchanged | LLR |

Dropout is active in all but `eval`.
"""

import contextlib

from athe_tf.layers.batch_norm import (
    batch_statistics_without_update,
    capture_batch_statistics,
    foreign_batch_norms,
    frozen_batch_statistics,
)
from athe_tf.utils.errors import InputError, check_choice

BN_MODES = ("eval", "train", "batch_no_update", "frozen_clean")


def check_bn_mode(mode: str, net) -> None:
    """Refuses a mode that a model's own batch normalisation cannot follow."""
    check_choice("bn_mode", mode, BN_MODES)
    if mode in ("batch_no_update", "frozen_clean") and foreign_batch_norms(net):
        raise InputError(
            f"bn_mode='{mode}' needs athe_tf.BatchNorm, and this model has keras.layers.BatchNormalization, "
            "which cannot use batch statistics without updating its own. Use bn_mode='eval', or build the "
            "model with athe_tf.BatchNorm."
        )


@contextlib.contextmanager
def crafting_mode(mode: str, net, x):
    """Inside, call `net(..., training=flag)` with the flag that is yielded."""
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
