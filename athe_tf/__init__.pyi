from . import (
    analysis,
    attacks,
    conversion,
    data,
    distribution,
    evaluation,
    layers,
    losses,
    models,
    report,
    results,
    saving,
    threat,
    training,
    zoo,
)
from .evaluation.evaluator import evaluate
from .layers.batch_norm import BatchNorm
from .layers.cosine_dense import CosineDense
from .losses import MarginCrossentropy
from .saving.keras_file import load_model
from .saving.opening import victim
from .saving.saved_model import export
from .utils.errors import InputError
from .version import __version__

__all__ = [
    "BatchNorm",
    "CosineDense",
    "InputError",
    "MarginCrossentropy",
    "__version__",
    "analysis",
    "attacks",
    "conversion",
    "data",
    "distribution",
    "evaluate",
    "evaluation",
    "export",
    "layers",
    "load_model",
    "losses",
    "models",
    "report",
    "results",
    "saving",
    "threat",
    "training",
    "victim",
    "zoo",
]
