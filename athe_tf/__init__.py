"""Adversarial training with hypersphere embedding, and robustness you can believe.

A tour, in the order of a project:

* `athe_tf.models.build` makes a classifier, `athe_tf.CosineDense` is the hypersphere head;
* `athe_tf.training.TRADES` (and its neighbors) wraps a classifier and trains it with `fit`;
* `athe_tf.attacks.get("pgd-20", epsilon=8/255)` attacks anything that maps images to logits;
* `athe_tf.evaluate` measures it, `athe_tf.export` ships it;
* `athe_tf.zoo.load` gives small robust classifiers to start from.

Public names load on first use, so importing this package is instant and does not start TensorFlow.
"""

import os

import lazy_loader

from athe_tf.utils.keras_registration import register_with_keras as _register_with_keras
from athe_tf.utils.quiet_start import start_quietly as _start_quietly
from athe_tf.version import __version__ as __version__

# oneDNN makes convolutions two to three times faster on CPUs without AVX-512 VNNI, where TensorFlow
# leaves it off. It has to be chosen before TensorFlow is imported; the user's own choice wins.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# So that `keras.models.load_model` finds the layers and losses of a saved model.
_register_with_keras()
_start_quietly()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
