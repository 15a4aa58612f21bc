from .card import describe
from .keras_file import load_model
from .saved_model import export

__all__ = [
    "describe",
    "export",
    "load_model",
]
