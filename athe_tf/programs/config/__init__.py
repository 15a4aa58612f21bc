"""The settings of the programs: frozen dataclasses, checked before TensorFlow starts.

Every field is a flag of the same name; its `help` is the flag's. Larger programs have a module of their
name here, smaller ones have their settings themselves. `rules.py` says which settings of a training run go
together, `serialization.py` writes and reads `config.json` and flags.
"""

from athe_tf.programs.config.analyze import AnalyzeConfig
from athe_tf.programs.config.evaluate import EvaluateConfig
from athe_tf.programs.config.train import TrainConfig

__all__ = ["AnalyzeConfig", "EvaluateConfig", "TrainConfig"]
