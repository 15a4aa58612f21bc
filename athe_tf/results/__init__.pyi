from .file_format import evaluation_schema
from .intervals import mean_interval, wilson_interval
from .result import AttackOutcome, Notice, Result

__all__ = ["AttackOutcome", "Notice", "Result", "evaluation_schema", "mean_interval", "wilson_interval"]
