from .converted_file import convert
from .torch_import import from_torch
from .torch_weights import load_torch_weights, to_torch

__all__ = ["convert", "from_torch", "load_torch_weights", "to_torch"]
