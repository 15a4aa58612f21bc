"""What an analysis works on: a model, images, labels and an attack.

This package imports TensorFlow inside of functions, so that the options of analyses are known without it.
"""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from athe_tf.analysis.options import AnalysisOptions
from athe_tf.analysis.result import AnalysisResult
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.number_format import format_number

if TYPE_CHECKING:
    import tensorflow as tf

    from athe_tf.analysis.weights import WeightLoss
    from athe_tf.attacks.engine.victim import Victim
    from athe_tf.attacks.gradient import PGD


class Subject:
    """A model with the images and the attack of an analysis.

    Args:
        kind: The class of the analysis, which decides what the model must have.
        model: A Keras model, or anything that `athe_tf.victim` takes.
        data: `(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.
        attack: A PGD attack. `None` is PGD-10 within 8/255 in linf.
        options: The settings that all analyses share; `None` for the defaults.
        own: The options of the analysis. Defaults to its defaults.
    """

    def __init__(
        self,
        kind: type[AnalysisResult],
        model,
        data,
        attack: "PGD | None" = None,
        options: AnalysisOptions | None = None,
        own=None,
    ):
        from athe_tf.attacks.gradient import PGD
        from athe_tf.evaluation.images import read_images

        own = own or kind.chosen({})
        self.analysis = kind.analysis
        self.options = options or AnalysisOptions()
        self.model = model
        self.victim = checked_victim(kind, own, model)
        self.attack = PGD(8 / 255, steps=10) if attack is None else attack
        check(
            isinstance(self.attack, PGD),
            "An analysis needs a gradient attack. Expected one such as athe_tf.attacks.PGD(epsilon=8/255, "
            f"steps=10). Received: {type(self.attack).__name__}.",
        )
        self.x, self.y = read_images(
            data, kind.used_images(own, self.options.max_examples), self.victim.num_classes
        )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def epsilon(self) -> float:
        """Radius of the attack."""
        return float(self.attack.threat.epsilon)

    @property
    def ball_text(self) -> str:
        """The ball of the attack, such as `linf, epsilon 8/255`."""
        return f"{self.attack.threat.norm}, epsilon {format_number(self.epsilon)}"

    def radii(self, *factors: float) -> tuple[float, ...]:
        """Multiples of the radius of the attack."""
        return tuple(factor * self.epsilon for factor in factors)

    def facts(self, **settings) -> dict:
        """What every result records: the model's name, the number of images, the settings."""
        return {
            "model": self.options.name or self.victim.name,
            "images": len(self),
            "settings": {
                "attack": f"{self.attack.name}-{self.attack.steps}, {self.ball_text}",
                "seed": self.options.seed,
                **settings,
            },
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
        import tensorflow as tf

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

    def adversarial(self, x, y, ids, attack: "PGD | None" = None, against: "Victim | None" = None):
        """Adversarial images of a batch: the last iterate of the attack."""
        attack = attack or self.attack
        return attack(against or self.victim, x, y, ids=ids, seed=self.options.seed)

    def all_adversarial(self, attack: "PGD | None" = None, against: "Victim | None" = None) -> np.ndarray:
        """Adversarial images of all images."""
        found = np.empty_like(self.x)
        for x, y, ids in self.batches():
            found[ids[0] : ids[0] + len(x)] = self.adversarial(x, y, ids, attack, against).numpy()
        return found

    def predicted(self, x, by: "Victim | None" = None) -> np.ndarray:
        """Logits of images, batch by batch."""
        import tensorflow as tf

        size, logits = self.options.batch_size, (by or self.victim).compiled_logits
        parts = [logits(tf.convert_to_tensor(x[i : i + size])).numpy() for i in range(0, len(x), size)]
        return np.concatenate(parts)

    def accuracy(self, attack: "PGD") -> float:
        """Accuracy under an attack, any iterate of which may succeed."""
        size, seed = self.options.batch_size, self.options.seed
        result = attack.run(self.victim, self.x, self.y, seed=seed, batch_size=size)
        return 1.0 - float(result.success.mean())

    def weight_loss(self, x) -> "WeightLoss":
        """The mean loss of images, in the order of the labels, as a function of the weights."""
        from athe_tf.analysis.weights import WeightLoss

        return WeightLoss(self.model, x, self.y, self.options.batch_size)

    def unit_perturbations(self, delta) -> np.ndarray:
        """Perturbations `[N, H, W, C]`, scaled to length one in the norm of the attack."""
        import tensorflow as tf

        from athe_tf.threat import TINY, per_example

        delta = tf.convert_to_tensor(delta, tf.float32)
        return (delta / per_example(tf.maximum(self.attack.threat.length(delta), TINY))).numpy()

    def random_signs(self, seed: int) -> np.ndarray:
        """One perturbation `[1, H, W, C]` of random signs, of length one in the norm of the attack."""
        rng, shape = np.random.default_rng(seed), (1, *self.x.shape[1:])
        return self.unit_perturbations(rng.choice(np.array([-1.0, 1.0], np.float32), size=shape))

    def class_weights(self) -> "tf.Tensor":
        """The class weights as the head uses them, one column per class."""
        import tensorflow as tf

        from athe_tf.layers.cosine_dense import CosineDense

        head = self.victim.head
        if isinstance(head, CosineDense):
            check(
                head.sub_centers == 1,
                f"{self.analysis} needs one weight vector per class. Received: a head with "
                f"sub_centers={head.sub_centers}. Use a model whose head has one.",
            )
            return tf.cast(head.class_directions(), tf.float32)
        return tf.cast(tf.convert_to_tensor(head.kernel), tf.float32)


def checked_victim(kind: type[AnalysisResult], own, model) -> "Victim":
    """The model as a victim; raises `InputError` unless it has what the analysis needs."""
    import keras

    from athe_tf.attacks.engine.victim import victim
    from athe_tf.evaluation.heads import ANGULAR_HEADS, head_of

    found, needs = victim(model), kind.requirement(own)
    if needs in ("features", "angles"):
        found.require_features(kind.analysis)
        found.require_head(kind.analysis)
    if needs == "angles" and head_of(found) not in ANGULAR_HEADS:
        raise InputError(
            f"Angles need a hypersphere head: one of {list(ANGULAR_HEADS)}. Received: '{found.name}' with "
            f"head '{head_of(found)}'. Convert the model with athe_tf.models.to_hypersphere."
        )
    if needs == "weights" and not isinstance(model, keras.Model):
        raise InputError(
            f"{kind.analysis} needs the weights of a Keras model. Received: {type(model).__name__} "
            f"'{found.name}'. Give a .keras file."
        )
    return found
