from .comparison import compare
from .evaluation_page import render
from .reading import read_evaluation
from .writing import write, write_comparison

__all__ = [
    "compare",
    "read_evaluation",
    "render",
    "write",
    "write_comparison",
]
