"""A test of the attacks of an evaluation: they must find adversarial examples that exist for certain.

For each image, a read-out with two classes takes the place of the model's last layer (Zimmermann et al.,
"Increasing confidence in adversarial robustness evaluations", 2022). It separates the features of random
points inside the ball from those of one point at its edge, which is therefore adversarial. An attack that
does not find one has lost its way in the network, whatever the robust accuracy says.

The read-out sees features as the last layer does: a hypersphere head normalizes them to unit length. The gap
between its logits at the image is the mean gap between the two largest logits of the model, so that losses
that depend on the scale of logits are neither helped nor hurt. What a model does behind its last layer, such
as a softmax or rounding, is part of the test.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.results import AttackResult, Precomputed
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.gradient_sources import last_dense_layer, replaced_calls, taken_apart
from athe_tf.models.victim import Victim
from athe_tf.threat import ThreatModel, flat, threat_model
from athe_tf.utils.errors import InputError, NoGradients, NotApplicable

# At most so many images, points inside the ball per image, and passes per image with everything.
IMAGES, INNER, MAX_PASSES = 50, 63, 1000
# The radius of the points inside, in epsilons: in linf, points of a cube are shorter than its corner anyway.
# And where the boundary lies between them (0) and the point at the edge (1).
SHARE, CLOSENESS = {"linf": 0.95, "l2": 0.55, "l1": 0.55}, 0.3
# The seed of the points is not that of the attacks; how much the fit of the read-outs is damped.
SEED, RIDGE = 0x5EED, 0.1
# By how much the score at the edge must exceed the largest inside; pixels by which images are told apart.
CLEARLY, PIXELS = 0.1, 512


@dataclasses.dataclass
class AttackTest:
    """The outcome of the test.

    Attributes:
        found: For each image, whether the attacks found an adversarial example.
        by_chance: Whether random search did, with as many queries as the attacks took on average.
        left_out: Attacks that cannot be run on two classes, or not within the budget of passes.
        passes: Forward and backward passes of everything, over all images.
    """

    found: np.ndarray
    by_chance: np.ndarray
    left_out: list[str]
    passes: tuple[int, int]


def try_attacks(
    inputs: EvaluationInputs, wanted: Sequence[Attack], rows: np.ndarray, budget: int
) -> AttackTest:
    """Tests attacks on some images; raises `NotApplicable` where that is impossible.

    `budget` is the largest number of passes of a test that succeeds, over all images.
    """
    victim = inputs.victim
    if not inputs.diagnosis.deterministic:
        raise NotApplicable("the model is randomized.")
    climbing = [one for one in wanted if follows_gradients(one, victim)]
    if not climbing or not inputs.epsilon:
        raise NotApplicable("no attack of this evaluation follows gradients at its epsilon.")
    rows = rows[: max(min(IMAGES, budget // (INNER + 1 + 50)), 1)]
    with taken_apart(victim):
        readout = ReadOut.fit(inputs, rows)
    rows, binary = rows[readout.kept], readout.victim(victim)
    if not len(rows):
        raise NotApplicable("the features of no image can be separated.")
    most, left_out, tried = (MAX_PASSES - INNER - 2) // 2, [], False
    found, spent = np.zeros(len(rows), bool), np.zeros((2, len(rows)), int)
    for attack in climbing:
        left = most - int(spent.sum(axis=0).max())
        if found.all() or left < 2:
            break
        try:
            result = run(attack, binary, inputs, rows[~found], max_passes=left)
        except NoGradients:
            tried = True  # and found nothing
            continue
        except InputError:  # needs three classes, features, or more passes
            left_out.append(attack.name)
            continue
        members = {one.name for one in attack.schedule.members(binary)}
        left_out += [one.name for one in getattr(attack, "attacks", []) if one.name not in members]
        tried, before = True, ~found
        spent[:, before] += result.queries, result.gradients
        found[before] = result.success
    if not tried:
        raise NotApplicable(f"none of {', '.join(left_out)} can be run on two classes in {most} passes.")
    queries = max(math.ceil(spent.sum() / len(rows)), 1)
    by_chance, images, ids = np.zeros(len(rows), bool), tf.constant(inputs.images[rows]), tf.constant(rows)
    for number in range(INNER, INNER + queries):
        tried_points = readout.ball.random_start(images, ids, SEED + number)
        by_chance |= binary.compiled_logits(tried_points).numpy().argmax(axis=1) == 1
    passes = readout.passes + int(spent[0].sum()) + queries * len(rows), int(spent[1].sum())
    return AttackTest(found, by_chance, list(dict.fromkeys(left_out)), passes)


def follows_gradients(attack: Attack, victim: Victim) -> bool:
    """Whether an attack, or one of a cascade, makes backward passes."""
    costs = [member.costs(victim) for member in attack.schedule.members(victim)]
    return any(one.backward or one.before[1] for one in costs)


def run(attack: Attack, binary: Victim, inputs: EvaluationInputs, rows: np.ndarray, **kwargs) -> AttackResult:
    """An attack on images whose read-out class is the first."""
    known, labels = Precomputed(np.ones(len(rows), bool)), np.zeros(len(rows), np.int32)
    kwargs |= {"seed": inputs.seed, "batch_size": inputs.batch_size, "precomputed": known}
    return attack.run(binary, inputs.images[rows], labels, ids=rows, **kwargs)


@dataclasses.dataclass
class ReadOut:
    """A linear function of the features for each image, positive at a point at the edge of its ball.

    Attributes:
        images: The images.
        weights: One vector per image.
        offsets: One number per image.
        kept: Images whose features can be separated.
        ball: Measures distances: a point belongs to the nearest image.
        head: The last layer; `None` if only the features behind it are known.
        passes: Forward passes that were needed.
    """

    images: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    kept: np.ndarray
    ball: ThreatModel
    head: Any
    passes: int

    @classmethod
    def fit(cls, inputs: EvaluationInputs, rows: np.ndarray) -> "ReadOut":
        """Fits the read-outs of some images; raises `NotApplicable` for a model without features."""
        images, ids = inputs.images[rows], tf.constant(rows)
        inner, ball = (
            threat_model(inputs.norm, share * inputs.epsilon) for share in (SHARE[inputs.norm], 1.0)
        )
        head = None if inputs.victim.network is None else last_dense_layer(inputs.victim, images[:1])
        features = features_of(inputs.victim, head)
        clean = features(images)
        points = [features(inner.random_start(images, ids, SEED + number)) for number in range(INNER)]
        direction = ball.random_direction(SEED, ids, images.shape[1:])
        points.append(features(ball.stretch(tf.constant(images), direction)))
        stacked = np.stack([clean, *points], axis=1).astype(np.float64)
        middle = stacked[:, :-1].mean(axis=1, keepdims=True)
        weights = np.stack([_ridge(one) for one in stacked - middle])
        scores = np.einsum("npd,nd->np", stacked - middle, weights)
        inside, edge = scores[:, :-1].max(axis=1), scores[:, -1]
        at = inside + CLOSENESS * (edge - inside)
        gap = np.sort(inputs.clean.logits, axis=1)
        gain = (gap[:, -1] - gap[:, -2]).mean() / np.maximum(at - scores[:, 0], 1e-9)
        weights *= gain[:, np.newaxis]
        offsets = gain * at + np.einsum("nd,nd->n", middle[:, 0], weights)
        kept = edge > (1 + CLEARLY) * inside
        one, two, three = (part[kept].astype(np.float32) for part in (images, weights, offsets))
        return cls(one, two, three, kept, ball, head, len(rows) * (INNER + 2))

    def victim(self, victim: Victim) -> Victim:
        """The model with the read-outs in place of its last layer; its gradient source, too."""
        size = math.prod(self.images.shape[1:])
        pixels = slice(None, None, max(size // PIXELS, 1))  # enough to tell images apart
        known = [self.images.reshape(len(self.images), size)[:, pixels], self.weights, self.offsets]

        def scored(x, z):
            images, weights, offsets = (tf.constant(one, x.dtype) for one in known)
            which = tf.argmin(self.ball.length(flat(x)[:, tf.newaxis, pixels] - images, [2])[:, :, 0], axis=1)
            score = tf.reduce_sum(tf.cast(z, x.dtype) * tf.gather(weights, which), axis=1)
            score = (score - tf.gather(offsets, which)) / 2
            return tf.stack([-score, score], axis=1)

        def binary(one: Victim, **source) -> Victim:
            logits = functools.partial(at_last_layer, one, self.head, scored)
            return Victim(logits, num_classes=2, scale=victim.scale, name=victim.name, **source)

        return binary(victim, **({} if victim.source is victim else {"source": binary(victim.source)}))


def _ridge(points: np.ndarray) -> np.ndarray:
    """Weights whose product with the last point is near 1, and near 0 with the others."""
    products = points @ points.T
    target = np.eye(len(points))[-1]
    damping = RIDGE * np.trace(products) / len(points) + 1e-12
    return points.T @ np.linalg.solve(products + damping * np.eye(len(points)), target)


def at_last_layer(victim: Victim, head, function: Callable, x):
    """What a victim returns if its last layer is a function of images and features.

    A hypersphere head normalizes its features to unit length, and so they are here.
    """
    if head is None:
        features = victim.require_features("The test")(x)
        return function(x, tf.math.l2_normalize(features, axis=-1) if victim.scale != 1 else features)
    unit = isinstance(head, CosineDense) and head.normalize_features

    def replaced(call, features, **kwargs):
        features = tf.cast(features, x.dtype)
        return function(x, tf.math.l2_normalize(features, axis=-1) if unit else features)

    with replaced_calls([(head, replaced)]):
        return victim.logits(x)


def features_of(victim: Victim, head) -> Callable:
    """A compiled function from images to the features that the last layer sees."""

    def features(x):
        seen = []

        def keep(x, features):
            seen.append(tf.cast(features, tf.float32))
            return tf.zeros([tf.shape(x)[0], 2], x.dtype)

        at_last_layer(victim, head, keep, x)
        return seen[0]

    compiled = tf.function(features, autograph=False, reduce_retracing=True)
    return lambda x: compiled(tf.convert_to_tensor(x, tf.float32)).numpy()
