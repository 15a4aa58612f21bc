"""Feature Attack: make an image look, to the last layer, like an image of another class."""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.attack import checked_batch
from athe_tf.attacks.engine.victim import Victim
from athe_tf.attacks.gradient import PGD
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, check


class Pool(NamedTuple):
    """Target features sorted by class. Variables, so that another pool needs no other trace."""

    features: tf.Variable  # [M, D]
    first: tf.Variable  # [L], the row at which a class begins
    count: tf.Variable  # [L], its number of rows


def features_and_logits(victim: Victim, x):
    """Flat features and logits, by one pass through the model where its head is known."""
    features = victim.features(x)
    logits = victim.logits(x) if victim.head is None else tf.cast(victim.head(features), tf.float32)
    return tf.reshape(features, [tf.shape(x)[0], -1]), logits


class FeatureAttack(PGD):
    """PGD that turns the features of an image towards those of images of other classes.

    For each image, target images are drawn with replacement from a pool, among those with another label.
    A round is one target: from a random start, the cosine between the penultimate features of the image and
    the target's is maximised, until the image is misclassified, whatever as. Class weights and logits play
    no part in the loss, so the logit scale plays none.

    An image that stands costs up to `n_targets * steps` gradients; most fall in the first rounds, and the
    survivors are gathered into full batches.

    Example:

    >>> attack = FeatureAttack(epsilon=8 / 255, n_targets=200, pool=(x_test, y_test))
    >>> result = attack.run(model, x_test[:1000], y_test[:1000])

    Args:
        epsilon: Radius of the ball, in pixels of [0, 1].
        norm: `"linf"`, `"l2"` or `"l1"`. Defaults to `"linf"`.
        n_targets: How many targets are drawn for an image. Defaults to 200.
        pool: `(images, labels)` to draw from. By default the images that are attacked, as the reference
            does; give one to make the verdict on an image independent of the other images.
        steps: Defaults to 50.
        step_size: Defaults to `epsilon / 8`: 1/255 for 8/255.
        **kwargs: `start` and `select`, as in `PGD`.

    Reference:
        https://github.com/Line290/FeatureAttack; the defaults are those of its PyTorch program.
    """

    name = "feature"
    default_steps = 50

    def __init__(self, epsilon, norm="linf", *, n_targets: int = 200, pool=None, step_size=None, **kwargs):
        super().__init__(epsilon, norm, loss=losses.feature, targeted=False, step_size=step_size, **kwargs)
        check(n_targets >= 1, f"`n_targets` must be at least 1. Received: n_targets={n_targets}.")
        if step_size is None:
            self.step_size = self.threat.epsilon / 8
        self.n_targets = int(n_targets)
        self.pool = None if pool is None else checked_batch(*pool)
        self._pools: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    # -- the pool ---------------------------------------------------------------------------------------

    def check_victim(self, victim: Victim) -> None:
        victim.require_features("Feature Attack")

    def prepare(self, victim: Victim, x, y, batch_size: int) -> int:
        """Computes the features of the pool."""
        images, labels = (np.asarray(x), np.asarray(y)) if self.pool is None else self.pool
        attacked = np.unique(np.asarray(y))
        if any((labels == label).all() for label in attacked):
            raise InputError(
                "Feature Attack needs target images of another class than the image it attacks. "
                f"Received: targets of class {labels[0]} only. "
                "Give a pool=(images, labels) of several classes."
            )
        order = np.argsort(labels, kind="stable")
        count = np.bincount(labels, minlength=int(attacked.max()) + 1)
        values = (
            self._features_of(victim, images[order], batch_size),
            (np.cumsum(count) - count).astype("int32"),
            count.astype("int32"),
        )
        if victim not in self._pools:
            self._pools[victim] = Pool(
                *(
                    tf.Variable(value, trainable=False, shape=[None, *value.shape[1:]], name="feature_pool")
                    for value in values
                )
            )
        for variable, value in zip(self._pools[victim], values, strict=True):
            variable.assign(value)
        return 1 if self.pool is None else 0

    def _features_of(self, victim: Victim, images, batch_size: int):
        """Flat features of a set of images."""
        compiled = self._compiled_features(victim, images.shape[1:])
        parts = [
            compiled(images[start : start + batch_size]).numpy()
            for start in range(0, len(images), batch_size)
        ]
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def _compiled_features(self, victim: Victim, shape):
        functions = self._compiled.setdefault(victim, {})
        key = ("features", tuple(shape))
        if key not in functions:
            reference: Callable[[], Any] = weakref.ref(victim)  # the function must not keep its own key alive
            functions[key] = tf.function(
                lambda x: reference().features(x),
                input_signature=[tf.TensorSpec([None, *shape], tf.float32)],
                autograph=False,
            )
        return functions[key]

    def targets(self, pool: Pool, y, ids, seed, round_index):
        """Features of one image of the pool for each example, uniform over those of other classes."""
        total = tf.shape(pool.features)[0]
        # The images of the label's own class are a gap in the sorted pool, which the draw steps over.
        first, count = tf.gather(pool.first, y), tf.gather(pool.count, y)
        others = total - count
        chance = rng.uniform(rng.fold(seed, round_index), ids, (), 0.0, 1.0, stream=7)
        drawn = tf.minimum(tf.cast(chance * tf.cast(others, tf.float32), tf.int32), others - 1)
        return tf.gather(pool.features, tf.where(drawn >= first, drawn + count, drawn))

    # -- the objective ----------------------------------------------------------------------------------

    def rounds(self, victim):
        return self.n_targets * self.restarts

    def round_inputs(self, victim, inputs, y, ids, seed, round_index):
        if victim not in self._pools:
            raise InputError(
                "Feature Attack computes the features of its targets before it starts, so it cannot be "
                "called inside a tf.function. Call it eagerly, or use `run`."
            )
        return [self.targets(self._pools[victim], y, ids, seed, round_index)]

    def objective(self, victim, y, reference):
        def evaluate(x):
            features, logits = features_and_logits(victim, x)
            return losses.feature(features, reference[0]), logits

        return evaluate

    def comparison(self, victim, y, inputs):
        return lambda x: losses.margin(victim.logits(x), y)

    def settings(self):
        settings = super().settings() | {"n_targets": self.n_targets}
        del settings["logit_scale"]  # it does not matter here
        return settings
