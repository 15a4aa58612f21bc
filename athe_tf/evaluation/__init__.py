"""Measuring robustness: attacks over a data set, a verdict on every image, and what follows from them.

`evaluate.py` runs the attacks, `statistics.py` turns flags into accuracies with intervals, `report.py` is
what comes out, `loading.py` opens models.
"""

import importlib

_NAMES = {"Report": "report", "evaluate": "evaluate", "open_victim": "loading"}

__all__ = sorted(_NAMES)


def __getattr__(name):
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
