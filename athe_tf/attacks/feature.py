"""PGD on features: toward another class' features (Feature Attack), or normalized (Table 7)."""

import weakref
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from athe_tf.attacks import losses
from athe_tf.attacks.engine.arguments import check_at_least
from athe_tf.attacks.engine.schedule import Schedule
from athe_tf.attacks.gradient import PGD
from athe_tf.layers.cosine_dense import CosineDense, unit_vectors
from athe_tf.models.victim import Victim
from athe_tf.utils import rng
from athe_tf.utils.errors import InputError, NotApplicable
from athe_tf.utils.images_and_labels import checked_batch


class Pool(NamedTuple):
    """Target features sorted by class. Variables, so that another pool needs no other trace."""

    features: tf.Variable  # [M, D]
    first: tf.Variable  # [L], the row at which a class begins
    count: tf.Variable  # [L], its number of rows


class PoolSchedule(Schedule):
    """The features of the pool are computed before the first round."""

    def prepare(self, victim: Victim, x, y, batch_size: int) -> int:
        return self.attack.prepare(victim, x, y, batch_size)


class FeatureAttack(PGD):
    """PGD that turns the features of an image toward those of images of other classes.

    For each image, target images are drawn with replacement from a pool, among those with another label.
    A round is one target: from a random start, the cosine between the penultimate features of the image and
    the target's is maximized, until the image is misclassified as any class. Class weights and logits are not
    part of the loss, so it does not depend on the logit scale.

    A robust image costs `n_targets * steps` gradients; most adversarial examples are found in the first
    rounds, and the survivors are gathered into full batches.

    Example:

    >>> attack = FeatureAttack(epsilon=8 / 255, n_targets=100, pool=(x, y))
    >>> result = attack.run(model, x[:4], y[:4])

    Args:
        n_targets: Number of targets that are drawn for an image. Defaults to 500.
        pool: `(images, labels)` to draw from. By default the images that are attacked, as the reference
            does; give one to make the result for an image independent of the other images.
        steps: Defaults to 50.
        step_size: Defaults to `epsilon / 8`: 1/255 for 8/255.
        **kwargs: `epsilon`, `norm`, `start` and `select`, as in `PGD`.

    Reference:
        https://github.com/Line290/FeatureAttack; the defaults are its PyTorch program's.
    """

    name = "feature"
    # Its loss compares features.
    depends_on_scale = False
    default_steps = 50
    epsilon_per_step = 8
    compares_margins = True
    schedule_class = PoolSchedule

    def __init__(self, epsilon, norm="linf", *, n_targets: int = 500, pool=None, **kwargs):
        super().__init__(epsilon, norm, loss=losses.feature, targeted=False, **kwargs)
        check_at_least(1, n_targets=n_targets)
        self.n_targets = int(n_targets)
        self.pool = None if pool is None else checked_batch(*pool)
        self._pools: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def check_victim(self, victim: Victim) -> None:
        victim.source.require_features("Feature Attack")

    def prepare(self, victim: Victim, x, y, batch_size: int) -> int:
        """Computes the features of the pool; returns the passes that every attacked image took for it."""
        images, labels = (x, np.asarray(y)) if self.pool is None else self.pool
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
            self._features_of(victim, images, batch_size)[order],
            (np.cumsum(count) - count).astype("int32"),
            count.astype("int32"),
        )
        if victim not in self._pools:
            shapes = [[None, *value.shape[1:]] for value in values]
            pairs = zip(values, shapes, strict=True)
            variables = [tf.Variable(v, trainable=False, shape=s, name="feature_pool") for v, s in pairs]
            self._pools[victim] = Pool(*variables)
        for variable, value in zip(self._pools[victim], values, strict=True):
            variable.assign(value)
        return 1 if self.pool is None else 0

    def _features_of(self, victim: Victim, images, batch_size: int):
        """Flat features of a set of images."""
        any_batch = tf.TensorSpec([None, *images.shape[1:]], tf.float32)
        compiled = victim.source.compiled_features.get_concrete_function(any_batch)
        batches = (images[i : i + batch_size] for i in range(0, len(images), batch_size))
        parts = [compiled(tf.constant(batch)).numpy() for batch in batches]
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def targets(self, pool: Pool, y, ids, seed, round_index):
        """Features of one image of the pool for each example, uniform over all other classes' images."""
        total = tf.shape(pool.features)[0]
        # The images of the label's own class are a gap in the sorted pool, which the draw steps over.
        first, count = tf.gather(pool.first, y), tf.gather(pool.count, y)
        others = total - count
        chance = rng.uniform(rng.fold(seed, round_index), ids, (), 0.0, 1.0, stream=7)
        drawn = tf.minimum(tf.cast(chance * tf.cast(others, tf.float32), tf.int32), others - 1)
        return tf.gather(pool.features, tf.where(drawn >= first, drawn + count, drawn))

    def rounds(self, victim):
        return self.n_targets * self.restarts

    def round_inputs(self, victim, inputs, y, ids, seed, round_index):
        if victim not in self._pools:
            raise InputError(
                "Feature Attack computes the features of its targets before it starts, so it cannot be "
                "called inside a tf.function. Call it eagerly, or use `run`."
            )
        return [self.targets(self._pools[victim], y, ids, seed, round_index)]

    def loss_logits(self, victim, x):
        """Flat features and logits, by one pass through the model if its head is known."""
        source = victim.source
        features = source.features(x)
        logits = source.logits(x) if source.head is None else tf.cast(source.head(features), tf.float32)
        return tf.reshape(features, [tf.shape(x)[0], -1]), logits


class FeatureNormPGD(PGD):
    """PGD whose loss sees the logits of unit features, on a model that does not normalize them.

    The length of the features cannot change the sign of a margin, so a gradient that changes the length is
    wasted. The objective here is a loss of `W^T z / ||z|| + b` (Eq. 12 of the reference; the bias of
    the head is kept): it turns the features and nothing else. Success is tested with the real logits.
    With few steps it is the stronger attack (Table 7: PGD-2 leaves 33.75% instead of 50.37%).

    Example:

    >>> attack = FeatureNormPGD(epsilon=8 / 255, steps=2)         # athe_tf.attacks.get("fn-pgd-2", ...)
    >>> result = attack.run(model, x, y)

    Args:
        logit_scale: The length of the features that the loss sees: a number s gives `s W^T z / ||z|| + b`.
            `"model"` (default) is Eq. 12 as it stands, s = 1; for a `CosineDense` head its own scale.
        **kwargs: Those of `PGD`.

    Reference:
        Pang et al., "Boosting Adversarial Training with Hypersphere Embedding", NeurIPS 2020, section 3.3.
    """

    name = "fn-pgd"

    def check_victim(self, victim: Victim) -> None:
        super().check_victim(victim)
        victim.source.require_features("PGD through normalized features")
        head = victim.source.require_head("PGD through normalized features")
        linear = isinstance(head, keras.layers.Dense) and head.activation is keras.activations.linear
        if not (linear or isinstance(head, CosineDense)):
            raise NotApplicable(
                "PGD through normalized features needs a last layer that is a linear Dense or a CosineDense. "
                f"Received: {type(head).__name__} '{head.name}'."
            )

    def loss_logits(self, victim, x):
        features, head = victim.source.features(x), victim.source.head
        unit, logits = unit_vectors(features, axis=-1), tf.cast(head(features), tf.float32)
        if self.logit_scale == "model":
            return tf.cast(head(unit), tf.float32), logits
        if isinstance(head, CosineDense):
            return (self.logit_scale / head.scale) * head(unit), logits
        return tf.cast(head(self.logit_scale * unit), tf.float32), logits
