"""Measuring robustness: attacks over a data set, a flag per image and attack, and what follows from them.

`evaluator.py` reads from top to bottom like an evaluation. The other files:

| file | content |
|---|---|
| `options.py`, `progress.py` | less common settings; how far an evaluation is |
| `clean.py` | what a user calls data; predictions for clean images |
| `protocols.py`, `attack_plan.py` | named sets of attacks, and the attacks that will be run |
| `inputs.py`, `clean.py`, `model_diagnosis.py` | model, images, and what is known before the first attack |
| `attack_run.py`, `state_folder.py` | runs one attack; the state of an evaluation or its shards on disk |
| `adversarial_examples.py` | adversarial examples to look at, and as 8-bit images |
| `converted_model.py` | ONNX and LiteRT files |
| `corruptions.py` | common corruptions |
| `sanity.py`, `sanity_probe.py`, `verify.py` | whether the numbers can be believed |
| `measures.py` | calibration, angles of a hypersphere head, transfer, recall@k |
| `result.py` | the result, which is in `athe_tf/results/` |

A new protocol is one entry in `protocols.py`; a new sanity check is one function in `sanity.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
