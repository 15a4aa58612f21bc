"""What a run is: frozen dataclasses, checked before TensorFlow starts.

Every field is a flag of the same name; its `help` is the flag's. The library itself never reads flags.

- `train.py`, `evaluate.py`, `export.py`, `report.py`: the settings of the four programs, one file each
- `fields.py`: what they have in common
- `text.py`: to and from `config.json` and flags
"""

from athe_tf.programs.config.evaluate import EvaluateConfig
from athe_tf.programs.config.export import ExportConfig
from athe_tf.programs.config.report import ReportConfig
from athe_tf.programs.config.serialization import (
    differences,
    exact_number,
    field_type,
    flag_text,
    from_json,
    item_type,
    to_json,
)
from athe_tf.programs.config.train import TrainConfig

__all__ = [
    "EvaluateConfig",
    "ExportConfig",
    "ReportConfig",
    "TrainConfig",
    "differences",
    "exact_number",
    "field_type",
    "flag_text",
    "from_json",
    "item_type",
    "to_json",
]
