"""Adversarial training with hypersphere embedding, and robustness you can believe.

A tour, in the order of a project:

* `athe_tf.models.build` makes a classifier, `athe_tf.CosineDense` is the hypersphere head;
* `athe_tf.training.TRADES` (and its neighbours) wraps a classifier and trains it with `fit`;
* `athe_tf.attacks.get("pgd-20", epsilon=8/255)` attacks anything that maps images to logits;
* `athe_tf.evaluate` measures it, `athe_tf.export` ships it.

Public names load on first use, so importing this package is instant and does not start TensorFlow.
"""

import importlib
import os

from athe_tf.version import __version__

# oneDNN makes convolutions two to three times faster on CPUs without AVX-512 VNNI, where TensorFlow
# leaves it off. It has to be chosen before TensorFlow is imported; the user's own choice wins.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

_ROOMS = ("attacks", "data", "evaluation", "layers", "losses", "models", "report", "threat", "training")

_NAMES = {
    "BatchNorm": "athe_tf.layers.batch_norm",
    "CosineDense": "athe_tf.layers.cosine_dense",
    "InputError": "athe_tf.errors",
    "MarginCrossentropy": "athe_tf.losses",
    "evaluate": "athe_tf.evaluation.evaluate",
    "export": "athe_tf.saved_model",
    "load_model": "athe_tf.saved_model",
    "victim": "athe_tf.attacks.victim",
}

__all__ = ["__version__", *sorted(_NAMES), *_ROOMS]


def __getattr__(name):
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"athe_tf.{name}")
    else:
        raise AttributeError(f"module 'athe_tf' has no attribute '{name}'. Available: {', '.join(__all__)}.")
    globals()[name] = value
    return value


def __dir__():
    return __all__
