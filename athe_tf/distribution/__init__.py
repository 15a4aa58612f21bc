"""From one device to many machines, with the same result.

| file | what |
|---|---|
| `settings.py` | what the flags and the environment ask for, checked before TensorFlow starts |
| `cluster.py` | the machines of a run: who they are, and waiting until they are there |
| `spread.py` | a run over its devices: the strategy, each worker's share of the data, who may write |
| `keras_repair.py` | what `fit` lacks on several workers |

Everything that decides on a result is a function of the position in the global batch, so none of this changes
what is trained; `docs/distributed.md` says how to start it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
