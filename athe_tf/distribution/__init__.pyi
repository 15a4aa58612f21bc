from .keras_patches import repair_fit
from .settings import Settings, read_settings
from .strategy import Spread, WorkerLost, start

__all__ = [
    "Settings",
    "Spread",
    "WorkerLost",
    "read_settings",
    "repair_fit",
    "start",
]
