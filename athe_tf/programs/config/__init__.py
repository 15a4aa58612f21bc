"""The settings of the programs: frozen dataclasses, checked before TensorFlow starts.

Every field is a flag of the same name; its `help` is the flag's. Each program has a module of its name here;
`rules.py` says which settings of a training run go together, `serialization.py` writes and reads
`config.json` and flags.
"""

from athe_tf.programs.config.analyze import AnalyzeConfig
from athe_tf.programs.config.evaluate import EvaluateConfig
from athe_tf.programs.config.export import ExportConfig
from athe_tf.programs.config.import_torch import ImportTorchConfig
from athe_tf.programs.config.train import TrainConfig

__all__ = [
    "AnalyzeConfig",
    "EvaluateConfig",
    "ExportConfig",
    "ImportTorchConfig",
    "TrainConfig",
]
