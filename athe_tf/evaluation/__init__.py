"""Measuring robustness: attacks over a data set, a flag per image and attack, and what follows from them.

`evaluator.py` reads from top to bottom like an evaluation. The other files:

| file | content |
|---|---|
| `options.py`, `progress.py` | less common settings; what a progress function is called with |
| `images.py` | what a user calls data |
| `protocols.py`, `attack_plan.py` | named sets of attacks, and the attacks that will be run |
| `inputs.py`, `clean.py`, `model_diagnosis.py` | model, images, and what is known before the first attack |
| `attack_run.py`, `state_folder.py` | runs one attack; the state of a long evaluation on disk |
| `eight_bit.py` | adversarial examples as 8-bit images |
| `converted_model.py` | ONNX and LiteRT files |
| `finished_attack.py`, `shard.py`, `merged_state.py` | what an attack found, in shares of the images |
| `transferred.py`, `corruptions.py` | adversarial examples of other models, common corruptions |
| `sanity.py`, `sanity_probe.py`, `verify.py` | whether the numbers can be believed |
| `under_attack.py`, `calibration.py`, `heads.py` | confidence, and the angles of a hypersphere head |
| `progress_display.py` | how progress is shown |
| `retrieval.py` | recall@k of embeddings |
| `result.py`, `text_table.py`, `intervals.py`, `examples.py` | the result |

A new protocol is one entry in `protocols.py`; a new sanity check is one function in `sanity.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
