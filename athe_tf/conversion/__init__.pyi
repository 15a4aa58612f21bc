from .converted_file import convert as convert
from .onnx_import import from_onnx as from_onnx
from .torch_import import from_torch as from_torch
from .torch_weights import load_torch_weights as load_torch_weights
from .torch_weights import to_torch as to_torch
