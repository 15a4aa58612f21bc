from .builder import build
from .embedding import embedding_model
from .ensemble import ensemble_of
from .freezing import freeze
from .hypersphere import to_hypersphere
from .input_range import with_input_range
from .logits import to_logits
from .names import ACTIVATIONS, HEADS, NAMES
from .scale import suggest_scale
from .torch_export import to_torch
from .torch_import import from_torch
from .torch_layout import load_torch_weights

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
