"""What an analysis works on: a model, images, labels and an attack."""

import math
from collections.abc import Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf

from athe_tf.analysis.options import AnalysisOptions
from athe_tf.attacks.engine.victim import Victim, victim
from athe_tf.attacks.gradient import PGD
from athe_tf.evaluation.images import read_images
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.number_format import format_number


class Subject:
    """A model with the images and the attack of an analysis.

    Args:
        model: A Keras model, or anything that `athe_tf.victim` takes.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack. `None` is PGD-10 within 8/255 in linf.
        options: The settings that all analyses share; `None` for the defaults.
    """

    def __init__(self, model, data, attack: PGD | None = None, options: AnalysisOptions | None = None):
        self.options = options or AnalysisOptions()
        self.model = model
        self.victim: Victim = victim(model)
        self.attack = PGD(8 / 255, steps=10) if attack is None else attack
        check(
            isinstance(self.attack, PGD),
            "An analysis needs a gradient attack. Expected one such as athe_tf.attacks.PGD(epsilon=8/255, "
            f"steps=10). Received: {type(self.attack).__name__}.",
        )
        self.x, self.y = read_images(data, self.options.max_examples, self.victim.num_classes)

    def __len__(self) -> int:
        return len(self.x)

    def facts(self, **settings) -> dict:
        """What every result records: the model's name, the number of images, the settings."""
        return {
            "model": self.options.name or self.victim.name,
            "images": len(self),
            "settings": {"attack": attack_text(self.attack), "seed": self.options.seed, **settings},
        }

    @property
    def steps(self) -> int:
        """Number of batches."""
        return math.ceil(len(self) / self.options.batch_size)

    def batches(self) -> Iterator[tuple]:
        """`(images, labels, positions)`, with progress after each."""
        for start in self.track(range(0, len(self), self.options.batch_size), self.steps):
            part = slice(start, start + self.options.batch_size)
            x = tf.convert_to_tensor(self.x[part])
            yield x, tf.convert_to_tensor(self.y[part]), tf.range(start, start + len(x), dtype=tf.int64)

    def track(self, items: Iterable, total: int) -> Iterator:
        """The items, and a call of the progress function after each."""
        for done, item in enumerate(items, 1):
            yield item
            if self.options.progress is not None:
                self.options.progress(done, total)

    def adversarial(self, x, y, ids, attack: PGD | None = None, against: Victim | None = None):
        """Adversarial images of a batch: the last iterate of the attack."""
        attack = attack or self.attack
        return attack(against or self.victim, x, y, ids=ids, seed=self.options.seed)

    def all_adversarial(self, attack: PGD | None = None, against: Victim | None = None) -> np.ndarray:
        """Adversarial images of all images."""
        parts = [self.adversarial(x, y, ids, attack, against).numpy() for x, y, ids in self.batches()]
        return np.concatenate(parts)

    def predicted(self, x, by: Victim | None = None) -> np.ndarray:
        """Logits of images, batch by batch."""
        size, logits = self.options.batch_size, (by or self.victim).compiled_logits
        parts = [logits(tf.convert_to_tensor(x[i : i + size])).numpy() for i in range(0, len(x), size)]
        return np.concatenate(parts)

    def accuracy(self, attack: PGD) -> float:
        """Accuracy under an attack, any iterate of which may succeed."""
        size, seed = self.options.batch_size, self.options.seed
        result = attack.run(self.victim, self.x, self.y, seed=seed, batch_size=size)
        return 1.0 - float(result.success.mean())

    def keras_model(self, who: str) -> keras.Model:
        """The Keras model; raises `InputError`, in the name of `who`, if its weights cannot be reached."""
        if not isinstance(self.model, keras.Model):
            raise InputError(
                f"{who} needs the weights of a Keras model. Received: {type(self.model).__name__} "
                f"'{self.victim.name}'. Give a .keras file."
            )
        return self.model

    def class_weights(self, who: str) -> tf.Tensor:
        """The class weights as the head uses them, one column per class."""
        self.victim.require_features(who)
        head = self.victim.require_head(who)
        if isinstance(head, CosineDense):
            return tf.cast(head.class_directions(), tf.float32)
        return tf.cast(tf.convert_to_tensor(head.kernel), tf.float32)


def attack_text(attack: PGD) -> str:
    """An attack in a few words, such as `pgd-10, linf, epsilon 8/255`."""
    return f"{attack.name}-{attack.steps}, {ball_text(attack)}"


def ball_text(attack: PGD) -> str:
    """The ball of an attack, such as `linf, epsilon 8/255`."""
    return f"{attack.threat.norm}, epsilon {format_number(float(attack.threat.epsilon))}"
