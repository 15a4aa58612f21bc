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

from athe_tf.lazy import lazy_names

_NAMES = {
    "Settings": "settings",
    "Spread": "spread",
    "WorkerLost": "spread",
    "read_settings": "settings",
    "repair_fit": "keras_repair",
    "start": "spread",
}

__all__ = sorted(_NAMES)

__getattr__ = lazy_names(__name__, _NAMES)
