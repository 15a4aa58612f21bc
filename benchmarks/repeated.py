"""Many short runs of one trainer: it is compiled once, and only weights, order and learning rate change."""

import dataclasses

from athe_tf import attacks
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig

import numpy as np  # isort: skip  (after athe_tf, which chooses oneDNN)


class Repeated:
    """Trains a config again and again, and measures its last model on the test images.

    Robust accuracy is the worst case, image by image, over PGD-50 on cross-entropy and PGD-50 with 5 restarts
    on the margin.

    Args:
        config: What to train. Its seed is that of the attack's starts in every run.
        splits: The data.
    """

    def __init__(self, config: TrainConfig, splits):
        self.config = config
        self.splits = splits
        self.trainer = build.make_trainer(config, splits)
        self.attacks = [
            attacks.PGD(config.epsilon, config.norm, steps=50),
            attacks.CWLinf(config.epsilon, config.norm, steps=50, restarts=5),
        ]

    def run(self, seed: int, rate: float | None = None) -> tuple[float, float]:
        """`(clean, robust)` accuracy after a training with this seed of weights and order.

        Args:
            seed: An integer.
            rate: A learning rate, for configs with a constant one. Defaults to the config's.
        """
        self._begin_again(seed, rate)
        config, train = self.config, self.splits.train
        steps = train.steps_per_epoch(config.batch_size)
        stream = train.stream(config.batch_size, seed=seed, epochs=config.epochs)
        self.trainer.fit(stream, steps_per_epoch=steps, epochs=config.epochs, verbose=0, shuffle=False)
        return self.measure()

    def _begin_again(self, seed: int, rate: float | None) -> None:
        net, optimizer = self.trainer.net, self.trainer.optimizer
        fresh = build.make_net(dataclasses.replace(self.config, seed=seed), self.splits)
        net.set_weights(fresh.get_weights())
        if rate is not None:
            optimizer.learning_rate = rate
        kept = getattr(optimizer, "_learning_rate", None)
        for variable in optimizer.variables:
            if variable is not kept:
                variable.assign(np.zeros(variable.shape))

    def measure(self) -> tuple[float, float]:
        """`(clean, robust)` accuracy of the weights as they are."""
        images, labels = self.splits.test.arrays()
        results = [
            attack.run(self.trainer.net, images, labels, batch_size=len(images)) for attack in self.attacks
        ]
        fallen = np.logical_or.reduce([result.success for result in results])
        predictions = np.argmax(self.trainer.net.predict(images, batch_size=len(images), verbose=0), axis=1)
        return float((predictions == labels).mean()), float(1 - fallen.mean())
