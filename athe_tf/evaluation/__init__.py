"""Measuring robustness: attacks over a data set, a flag per image and attack, and what follows from them.

`evaluator.py` reads from top to bottom like an evaluation. The other files:

| file | content |
|---|---|
| `options.py`, `progress.py` | less common settings; how far an evaluation is |
| `protocols.py` | named sets of attacks |
| `inputs.py`, `model_diagnosis.py` | model, images, and what is known before the first attack |
| `attack_run.py` | the attacks that will be run, and running one of them |
| `state_folder.py` | the state of an evaluation or its shards on disk |
| `adversarial_examples.py` | adversarial examples to look at, and as 8-bit images |
| `converted_model.py` | ONNX and LiteRT files |
| `corruptions.py` | common corruptions |
| `sanity.py`, `verify.py` | whether the numbers can be believed |
| `measures.py` | calibration, angles of a hypersphere head, transfer, recall@k |

The result is in `athe_tf/results/`. A new protocol is one entry in `protocols.py`; a new sanity check is one
function in `sanity.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
