from .attack_outcome import AttackOutcome
from .file_format import evaluation_schema
from .intervals import mean_interval, wilson_interval
from .notices import Notice
from .result import Result

__all__ = ["AttackOutcome", "Notice", "Result", "evaluation_schema", "mean_interval", "wilson_interval"]
