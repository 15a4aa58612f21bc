from .corruptions import evaluate_corruptions
from .evaluator import evaluate
from .protocols import PROTOCOLS
from .result import AttackReport, Report

__all__ = [
    "PROTOCOLS",
    "AttackReport",
    "Report",
    "evaluate",
    "evaluate_corruptions",
]
