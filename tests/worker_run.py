"""One worker of several runs: `python -m tests.worker_run FOLDER`, with TF_CONFIG set.

Every `FOLDER/NAME.config.json` is trained, and `NAME.INDEX.npz` gets the weights of the worker.
"""

import json
import pathlib
import sys

import athe_tf
from athe_tf.distribution import DistributionSettings, initialize
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.config.serialization import from_json

import keras  # isort: skip
import numpy as np  # isort: skip
import tensorflow as tf  # isort: skip
from keras.src.backend.tensorflow import trainer as keras_trainer  # isort: skip

from athe_tf.programs.run import train
from athe_tf.programs.workdir import Workdir
from tests.small_runs import small_cnn_of_one_layer


def plain_fit(strategy) -> list:
    """Two steps of a plain Keras model."""
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :2])).batch(4, drop_remainder=True)
    history = model.fit(data, verbose=0, shuffle=False).history
    return [float(history["loss"][0]), *np.asarray(model.weights[0]).ravel().tolist()]


def errors_without_repair(strategy) -> dict:
    """What Keras itself says in the two places that are repaired; empty strings where it works."""
    repaired_build = keras_trainer.TensorFlowTrainer._maybe_symbolic_build
    repaired_reduction = keras_trainer.reduce_per_replica

    def build():
        keras_trainer.TensorFlowTrainer._maybe_symbolic_build = repaired_build.__wrapped__
        plain_fit(strategy)

    def reduction():
        repaired_reduction.__wrapped__({"loss": tf.constant(1.0)}, strategy, "mean")

    found = {}
    for function in (build, reduction):
        try:
            function()
            found[function.__name__] = ""
        except Exception as error:
            found[function.__name__] = f"{type(error).__name__}: {error}"
        finally:
            keras_trainer.TensorFlowTrainer._maybe_symbolic_build = repaired_build
    return found


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    configs = {
        path.name.partition(".")[0]: from_json(TrainConfig, path.read_text())
        for path in sorted(folder.glob("*.config.json"))
    }
    config = next(iter(configs.values()))
    settings = DistributionSettings(config.distribution, config.devices, worker_timeout=config.worker_timeout)
    distribution = initialize(settings.resolve())
    index = distribution.cluster.index
    facts = {
        "errors": errors_without_repair(distribution.strategy),
        "plain": plain_fit(distribution.strategy),
    }
    facts["sum"] = [distribution.from_chief(0.1 + index), distribution.any_worker(not distribution.is_chief)]
    (folder / f"{index}.json").write_text(json.dumps(facts))
    for name, config in configs.items():
        with small_cnn_of_one_layer():
            trainer = train(
                config, athe_tf.data.load(config.dataset), Workdir(config.workdir), distribution=distribution
            )
        np.savez(folder / f"{name}.{index}.npz", *[np.asarray(weight) for weight in trainer.net.weights])


if __name__ == "__main__":
    main()
