from .converted_model import evaluate_converted
from .corruptions import evaluate_corruptions
from .evaluator import evaluate
from .measures import recall_at_k
from .options import AttackOutcome, EvaluationOptions, Result
from .progress import EvaluationProgress
from .protocols import PROTOCOLS, AttackSpec, Protocol

__all__ = [
    "PROTOCOLS",
    "AttackOutcome",
    "AttackSpec",
    "EvaluationOptions",
    "EvaluationProgress",
    "Protocol",
    "Result",
    "evaluate",
    "evaluate_converted",
    "evaluate_corruptions",
    "recall_at_k",
]
