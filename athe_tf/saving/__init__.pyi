from .card import describe
from .converted_file import convert
from .keras_file import load_model
from .saved_model import export

__all__ = [
    "convert",
    "describe",
    "export",
    "load_model",
]
