from .builder import build
from .embedding import embedding_model
from .ensemble import ensemble_of
from .hypersphere import to_hypersphere
from .input_range import with_input_range
from .logits import to_logits
from .names import ACTIVATIONS, HEADS, NAMES
from .scale import suggest_scale
from .torch_layout import load_torch_weights

__all__ = [
    "ACTIVATIONS",
    "HEADS",
    "NAMES",
    "build",
    "embedding_model",
    "ensemble_of",
    "load_torch_weights",
    "suggest_scale",
    "to_hypersphere",
    "to_logits",
    "with_input_range",
]
