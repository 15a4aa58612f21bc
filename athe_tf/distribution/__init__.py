"""From one device to several machines, with the same result.

    distribution = athe_tf.distribution.initialize(DistributionSettings("auto").resolve())
    with distribution.scope():
        trainer = ...
    trainer.fit(distribution.train_dataset(train, batch_size=128, seed=0), steps_per_epoch=...)

| file | what |
|---|---|
| `settings.py` | which devices and machines to use, checked before TensorFlow starts |
| `cluster.py` | the addresses of the workers, and waiting until all of them answer |
| `strategy.py` | `initialize`: devices, workers, strategy; `Distribution`: who reads and writes what |
| `keras_patches.py` | what `fit` lacks on several workers |

All random numbers and all data depend on the position in the global batch, so the number of devices does not
change what is trained. `docs/distributed.md` shows how to start it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
