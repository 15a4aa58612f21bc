from .builder import build
from .ensemble import ensemble_of
from .hypersphere import to_hypersphere
from .names import ACTIVATIONS, HEADS, NAMES
from .scale import suggest_scale
from .torch_layout import load_torch_weights

__all__ = [
    "ACTIVATIONS",
    "HEADS",
    "NAMES",
    "build",
    "ensemble_of",
    "load_torch_weights",
    "suggest_scale",
    "to_hypersphere",
]
