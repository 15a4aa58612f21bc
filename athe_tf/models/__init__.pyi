import athe_tf.conversion

from .builder import build
from .embedding import embedding_model
from .ensemble import ensemble_of
from .freezing import freeze
from .hypersphere import to_hypersphere
from .input_range import with_input_range
from .logits import to_logits
from .names import ACTIVATIONS, HEADS, NAMES
from .scale import suggest_scale

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
