from .cards import card, names, table
from .models import load

__all__ = [
    "card",
    "load",
    "names",
    "table",
]
