from .comparison import Comparison, compare
from .pages import render
from .reading import SavedEvaluation, read_evaluation, schema
from .writing import write, write_comparison, write_figures

__all__ = [
    "Comparison",
    "SavedEvaluation",
    "compare",
    "read_evaluation",
    "render",
    "schema",
    "write",
    "write_comparison",
    "write_figures",
]
