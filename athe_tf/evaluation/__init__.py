"""Measuring robustness: attacks over a data set, a verdict on every image, and what follows from them.

`evaluate.py` reads top to bottom like an evaluation. What it goes through:

| file | what |
|---|---|
| `loading.py`, `images.py` | whatever a user calls a model, and data |
| `protocols.py`, `plan.py` | named sets of attacks, and the attacks that will be run |
| `case.py`, `clean.py`, `model_traits.py` | model, images, and what is known before the first attack |
| `attack_run.py`, `state.py` | one attack, and where a long evaluation stands on the disk |
| `transferred.py`, `corruptions.py` | other models' images, common corruptions |
| `sanity.py`, `verify.py` | whether the numbers are to be believed |
| `under_attack.py`, `calibration.py`, `heads.py` | confidence, and the angles of a hypersphere head |
| `report.py`, `wording.py`, `statistics.py`, `examples.py` | what comes out |

A new protocol is one entry in `protocols.py`; a new sanity check is one function in `sanity.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
