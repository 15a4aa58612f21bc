"""What an analysis works on: a model, images, labels and an attack."""

import math
from collections.abc import Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf

from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.requirements import check_weights, checked_victim
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.evaluation.clean import read_images
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.utils.errors import check
from athe_tf.utils.number_format import format_number


class Subject:
    """A model with the images and the attack of an analysis.

    Args:
        analysis: The name of the analysis, which decides what the model must have.
        model: A Keras model, or anything that `athe_tf.victim` takes.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack. `None` is PGD-10 within 8/255 in linf.
        options: The settings that all analyses share; `None` for the defaults.
    """

    def __init__(
        self, analysis: str, model, data, attack: PGD | None = None, options: AnalysisOptions | None = None
    ):
        self.analysis = analysis
        self.options = options or AnalysisOptions()
        self.model = model
        self.victim: Victim = checked_victim(analysis, model)
        self.attack = PGD(8 / 255, steps=10) if attack is None else attack
        check(
            isinstance(self.attack, PGD),
            "An analysis needs a gradient attack. Expected one such as athe_tf.attacks.PGD(epsilon=8/255, "
            f"steps=10). Received: {type(self.attack).__name__}.",
        )
        self.x, self.y = read_images(data, self.options.max_examples, self.victim.num_classes)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def epsilon(self) -> float:
        """Radius of the attack."""
        return float(self.attack.threat.epsilon)

    def radii(self, *factors: float) -> tuple[float, ...]:
        """Multiples of the radius of the attack."""
        return tuple(factor * self.epsilon for factor in factors)

    def facts(self, **settings) -> dict:
        """What every result records: the model's name, the number of images, the settings."""
        return {
            "model": self.options.name or self.victim.name,
            "images": len(self),
            "settings": {"attack": attack_text(self.attack), "seed": self.options.seed, **settings},
        }

    def class_names(self, count: int) -> tuple[str, ...]:
        """The names of this many classes; numbers if they have no names."""
        names = self.options.class_names or ()
        return tuple(names[i] if i < len(names) else str(i) for i in range(count))

    def batches(self) -> Iterator[tuple]:
        """`(images, labels, positions)`, with progress after each."""
        return self.track(self.untracked_batches(), math.ceil(len(self) / self.options.batch_size))

    def untracked_batches(self) -> Iterator[tuple]:
        """`(images, labels, positions)`, for an analysis that counts other steps."""
        for start in range(0, len(self), self.options.batch_size):
            part = slice(start, start + self.options.batch_size)
            x = tf.convert_to_tensor(self.x[part])
            yield x, tf.convert_to_tensor(self.y[part]), tf.range(start, start + len(x), dtype=tf.int64)

    def track(self, items: Iterable, total: int) -> Iterator:
        """The items, and a call of the progress function after each."""
        for done, item in enumerate(items, 1):
            yield item
            self.report(done, total)

    def report(self, done: int, total: int | None = None) -> None:
        """Calls the progress function, if there is one."""
        if self.options.progress is not None:
            self.options.progress(done, total)

    def adversarial(self, x, y, ids, attack: PGD | None = None, against: Victim | None = None):
        """Adversarial images of a batch: the last iterate of the attack."""
        attack = attack or self.attack
        return attack(against or self.victim, x, y, ids=ids, seed=self.options.seed)

    def all_adversarial(self, attack: PGD | None = None, against: Victim | None = None) -> np.ndarray:
        """Adversarial images of all images."""
        found = np.empty_like(self.x)
        for x, y, ids in self.batches():
            found[ids[0] : ids[0] + len(x)] = self.adversarial(x, y, ids, attack, against).numpy()
        return found

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

    def keras_model(self) -> keras.Model:
        """The Keras model; raises `InputError` if its weights cannot be reached."""
        check_weights(self.analysis, self.model, self.victim)
        return self.model

    def class_weights(self) -> tf.Tensor:
        """The class weights as the head uses them, one column per class."""
        head = self.victim.head
        if isinstance(head, CosineDense):
            check(
                head.sub_centers == 1,
                f"{self.analysis} needs one weight vector per class. Received: a head with "
                f"sub_centers={head.sub_centers}. Use a model whose head has one.",
            )
            return tf.cast(head.class_directions(), tf.float32)
        return tf.cast(tf.convert_to_tensor(head.kernel), tf.float32)


def attack_text(attack: PGD) -> str:
    """An attack in a few words, such as `pgd-10, linf, epsilon 8/255`."""
    return f"{attack.name}-{attack.steps}, {ball_text(attack)}"


def ball_text(attack: PGD) -> str:
    """The ball of an attack, such as `linf, epsilon 8/255`."""
    return f"{attack.threat.norm}, epsilon {format_number(float(attack.threat.epsilon))}"
