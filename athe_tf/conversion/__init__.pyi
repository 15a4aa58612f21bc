from .converted_file import convert
from .torch_export import to_torch
from .torch_import import from_torch
from .torch_layout import load_torch_weights

__all__ = [
    "convert",
    "from_torch",
    "load_torch_weights",
    "to_torch",
]
