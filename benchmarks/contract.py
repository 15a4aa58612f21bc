"""The whole product of the pieces of recipes: `python -m benchmarks.contract [FRAMEWORK...]`.

Every piece with every framework, head and precision trains for two steps; what a framework refuses must be
said before the first of them. And 4 x 32 images give the update of 128 in every framework, with frozen batch
normalization in float64, weights and averages within 1e-9. Prints one line per framework, and every failure.
The suite has each pair once, in `tests/training/test_combinations.py`, and replicas and kills too.
"""

import itertools
import sys
from unittest import mock

import keras
import numpy as np

from athe_tf import training
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from athe_tf.training.options import OPTIONS
from athe_tf.utils.errors import InputError
from tests.small_runs import ADAMW, CYCLE, get_weights, small_cnn_of_one_layer, tiny_splits
from tests.training.test_combinations import HEADS, SHORT
from tests.training.test_recipes import WEIGHTS, X, Y, frozen_net, make

PIECES: dict[str, dict] = {
    "none": {},
    "one cycle": {"lr_schedule": "one_cycle"},
    "parts": {"accumulate": 4},
    "average": {"ema": 0.9, "ema_start": 0.5, "ema_constant": True, "ema_statistics": "averaged"},
    "statistics": {"bn_momentum": 0.99, "bn_copy_first": True},
    "adamw": {"optimizer": "adamw(beta_2=0.95)", "decay_variables": "kernels"},
    "warm-up": {"lr_schedule": "cosine", "lr_warmup": 1.0, "lr_min": 0.001, "lr_per_epoch": True},
    "pgd-adam": {"attack": "pgd-adam"},
    "apgd": {"attack": "apgd-ce"},
    "rising step": {"step_size_warmup": 2.0},
    "smoothing": {"label_smoothing": 0.1, "attack_smoothing": 0.1},
    "perturbed weights": {"awp_gamma": 0.01},
    "cycle": CYCLE,
    "adamw and more": ADAMW,
}
MODES = {"float32": {}, "mixed_float16": {"precision": "mixed_float16"}}


def outcome(framework: str, head: str, piece: str, mode: str) -> str:
    """`"trained"`, `"refused"` or what went wrong."""
    base = {
        "epsilon": 0.1,
        "epochs": 4,
        "batch_size": 16,
        "validation_attack": "pgd-1",
        "augmentation": "none",
    }
    base |= {"steps": 2} if framework in SHORT else {}
    splits = tiny_splits(32)
    try:
        config = TrainConfig.from_flags(framework=framework, head=head, **base | PIECES[piece] | MODES[mode])
        with small_cnn_of_one_layer(), mock.patch.object(build, "check_precision"):
            trainer = build.make_trainer(config, splits)
    except InputError:
        return "refused"
    try:
        trainer.fit(splits.train.stream(**config.stream_settings), steps_per_epoch=2, verbose=0)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finite = all(np.isfinite(np.asarray(weight)).all() for weight in trainer.net.trainable_variables)
    return "trained" if finite else "weights that are not finite"


def largest_difference(framework: str) -> float:
    """Of weights and averages after two steps, in four parts and at once."""
    results = []
    for accumulate in (1, 4):
        trainer = make(framework, frozen_net(), accumulate=accumulate, average=training.EMA(0.9))
        for _ in range(2):
            trainer.train_on_batch(X, Y, sample_weight=WEIGHTS)
        results.append([*get_weights(trainer.net), *get_weights(trainer.averaged)])
    return max(float(np.abs(a - b).max()) for a, b in zip(*results, strict=True))


def main() -> None:
    failures = 0
    for framework in sys.argv[1:] or OPTIONS:
        counts: dict[str, int] = {}
        for row in itertools.product(HEADS, PIECES, MODES):
            found = outcome(framework, *row)
            if found not in ("trained", "refused"):
                print(f"{framework}, {', '.join(row)}: {found}", flush=True)
                found, failures = "failed", failures + 1
            counts[found] = counts.get(found, 0) + 1
            keras.utils.clear_session()
        parts = largest_difference(framework)
        failures += parts > 1e-9
        print(f"{framework}: {counts}; 4 x 32 and 128 differ by {parts:.1e}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
