from .builder import build
from .ensemble import ensemble_of
from .hypersphere import to_hypersphere
from .names import ACTIVATIONS, HEADS, NAMES

__all__ = [
    "ACTIVATIONS",
    "HEADS",
    "NAMES",
    "build",
    "ensemble_of",
    "to_hypersphere",
]
