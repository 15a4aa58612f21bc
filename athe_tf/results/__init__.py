"""What an evaluation found, written and read without TensorFlow.

| file | content |
|---|---|
| `result.py`, `attack_outcome.py` | `Result` and `AttackOutcome`: every number is computed here, once |
| `file_format.py` | the format of `evaluation.json`, its JSON Schema, and older formats |
| `json_files.py`, `pictures.py` | reading files that may come from anybody |
| `notices.py` | warnings with ids, and the table of all ids |
| `text_table.py`, `intervals.py` | the table that `print` shows; confidence intervals |
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
