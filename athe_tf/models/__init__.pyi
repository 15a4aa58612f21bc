import athe_tf.conversion

from .adapters import ensemble_of, freeze, to_logits, with_input_range
from .builder import build
from .features import embedding_model
from .hypersphere import suggest_scale, to_hypersphere
from .names import ACTIVATIONS, HEADS, NAMES

from_torch = athe_tf.conversion.from_torch
load_torch_weights = athe_tf.conversion.load_torch_weights
to_torch = athe_tf.conversion.to_torch

__all__ = [
    "ACTIVATIONS",
    "HEADS",
    "NAMES",
    "build",
    "embedding_model",
    "ensemble_of",
    "freeze",
    "from_torch",
    "load_torch_weights",
    "suggest_scale",
    "to_hypersphere",
    "to_logits",
    "to_torch",
    "with_input_range",
]
