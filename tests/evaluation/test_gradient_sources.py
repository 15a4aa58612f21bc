"""Models whose gradients are taken elsewhere: through layers without any, and over passes of random ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import athe_tf
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.models.gradient_sources import layers_without_gradient, majority_of
from athe_tf.results.norms_and_distances import randomized_accuracies
from athe_tf.utils.errors import InputError, NotApplicable
from tests.linear_case import SHAPE, gray_images, linear_model, predictions

LINEAR = linear_model(classes=2)
IMAGES = gray_images(24)
LEVELS = 8


def rounded(values):
    return tf.round(LEVELS * values) / LEVELS


def rounding_model():
    inputs = keras.Input(SHAPE)
    return keras.Model(inputs, LINEAR(keras.layers.Lambda(rounded, name="levels")(inputs)))


def test_the_gradient_through_a_rounding_layer_is_that_of_the_layers_around_it():
    victim = athe_tf.models.straight_through(rounding_model(), ["levels"])
    x = tf.constant(IMAGES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        gap = victim.source.logits(x)[:, 1] - victim.source.logits(x)[:, 0]
    kernel = LINEAR.layers[-1].get_weights()[0]
    expected = (kernel[:, 1] - kernel[:, 0]).reshape(SHAPE)
    np.testing.assert_allclose(tape.gradient(gap, x), np.broadcast_to(expected, x.shape), rtol=1e-5)
    # The judge is the model as it is, and the source has its logits.
    np.testing.assert_array_equal(victim.logits(x), rounding_model()(x))
    np.testing.assert_allclose(victim.source.logits(x), victim.logits(x), atol=1e-5)
    halved = athe_tf.models.straight_through(rounding_model(), {"levels": lambda v: v / 2})
    with tf.GradientTape() as tape:
        tape.watch(x)
        half = halved.source.logits(x)[:, 1] - halved.source.logits(x)[:, 0]
    np.testing.assert_allclose(tape.gradient(half, x), np.broadcast_to(expected / 2, x.shape), rtol=1e-5)


def test_attacks_through_a_rounding_layer_find_the_exact_worst_case():
    model, epsilon = rounding_model(), 0.04
    labels = predictions(model, IMAGES)
    kernel, bias = (np.asarray(each, np.float64) for each in LINEAR.layers[-1].get_weights())
    away = (1 - 2 * labels)[:, None] * (kernel[:, 1] - kernel[:, 0])
    flat = IMAGES.reshape(len(IMAGES), -1)
    # Rounding rises, so that the corner of the ball is the worst point.
    worst = np.round(LEVELS * (flat + np.float32(epsilon) * np.sign(away).astype("float32"))) / LEVELS
    gap = (worst * away).sum(axis=1) + (1 - 2 * labels) * (bias[1] - bias[0])
    settings = {"attacks": ["cw-linf-20"], "epsilon": epsilon, "checks": False}
    options = EvaluationOptions(straight_through=["levels"])
    found = athe_tf.evaluate(model, (IMAGES, labels), options=options, **settings)
    assert 0 < (gap > 0).mean() < 1
    np.testing.assert_array_equal(found.robust, gap <= 0)
    assert found.gradient_source["name"].endswith("straight through levels") and found.judge
    assert "Who decides" in athe_tf.report.render(found)
    # Without it, the attack has nothing to follow.
    assert athe_tf.evaluate(model, (IMAGES, labels), **settings).attacks[0].not_run


def test_layers_without_a_gradient_are_named_also_in_a_branch_and_as_an_operation():
    inputs = keras.Input(SHAPE)
    first = keras.layers.Lambda(rounded, name="levels")(inputs)
    second = keras.ops.round(keras.layers.Rescaling(4.0)(inputs))
    model = keras.Model(inputs, LINEAR(keras.layers.Add()([first, second, inputs])))
    labels = predictions(model, IMAGES)
    result = athe_tf.evaluate(model, (IMAGES[:8], labels[:8]), attacks=["fgsm"], epsilon=0.01)
    (check,) = [one for one in result.checks if one["name"] == "every layer passes gradients"]
    assert check["status"] == "failed" and "'levels'" in check["detail"] and "'round'" in check["detail"]
    assert "--straight_through=" in check["detail"]
    attackable = athe_tf.models.straight_through(model, ["levels", "round"])
    assert layers_without_gradient(attackable.source, IMAGES[:8], labels[:8]) == []
    assert layers_without_gradient(athe_tf.victim(LINEAR), IMAGES[:8], labels[:8]) == []


def test_layers_that_cannot_be_passed_are_refused():
    with pytest.raises(InputError, match="levels"):
        athe_tf.models.straight_through(rounding_model(), ["level"])
    with pytest.raises(NotApplicable, match="layers of .* are not known"):
        athe_tf.models.straight_through(lambda x: x[:, 0, 0, :], ["levels"])
    victim = athe_tf.models.straight_through(LINEAR, [LINEAR.layers[1].name])
    with pytest.raises(InputError, match="Expected one shape"):
        victim.source.logits(tf.constant(IMAGES))


class Coin:
    """Wrong in `16 * x[0, 0, 0]` of every 16 passes that follow each other, and steepest along that pixel."""

    def __init__(self):
        self.passes = tf.Variable(0, dtype=tf.int32)

    def __call__(self, x):
        # 7 and 16 have no common divisor: 16 passes take every value once.
        turn = (7 * self.passes.assign_add(1)) % 16
        wrong = turn < tf.cast(tf.round(16 * x[:, 0, 0, 0]), tf.int32)
        gap = tf.where(wrong, 1.0, -1.0) + x[:, 0, 0, 0]
        return tf.stack([tf.zeros_like(gap), gap], axis=1)


def test_the_majority_of_fresh_passes_decides_about_a_coin():
    share = np.array([2, 7, 8, 10]) / 16
    images = np.zeros((4, *SHAPE), np.float32)
    images[:, 0, 0, 0] = share
    options = EvaluationOptions(gradient_passes=3)
    settings = {"attacks": ["pgd-20"], "epsilon": 3.2 / 16, "checks": False, "options": options}
    found = athe_tf.evaluate(athe_tf.victim(Coin(), num_classes=2), (images, np.zeros(4, int)), **settings)
    # At rest 2, 7, 8 and 10 of 16 passes are wrong; under attack up to 5, 10 and 11.
    assert found.correct.tolist() == [True, True, True, False]
    assert found.robust.tolist() == [True, False, False, False]
    broken = found["pgd-20"].broken_passes
    assert broken[0] == 2 and broken[3] == 10 and all(9 <= broken[i] <= 11 for i in (1, 2))
    assert found.randomized["passes"] == 16 and found.randomized["needed"] == 9
    assert found.randomized["majority_accuracy"] == 0.25 == found.worst_case_accuracy
    assert found.randomized["mean_accuracy"] == pytest.approx(1 - broken.mean() / 16)
    assert found.randomized["lower_bound"] == 0.25
    assert "Randomized model: an image is broken if 9 of 16" in str(found)
    # One gradient for 20 steps at most, of three passes each.
    assert found["pgd-20"].gradients <= 3 * 20 * 3 and found["pgd-20"].gradients % 3 == 0


class AlwaysDrops(keras.layers.Layer):
    """Dropout at inference, too."""

    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator(0)

    def call(self, x):
        return keras.random.dropout(x, 0.1, seed=self.generator)


def dropping_model():
    inputs = keras.Input(SHAPE)
    return keras.Model(inputs, LINEAR(AlwaysDrops()(inputs)))


def test_shards_of_a_randomized_model_are_merged_and_their_passes_belong_to_their_state(tmp_path):
    model, settings = dropping_model(), {"attacks": ["fgsm"], "epsilon": 0.02, "checks": False}
    labels = predictions(LINEAR, IMAGES)
    states = [tmp_path / name for name in "ab"]
    for number, state in enumerate(states, start=1):
        options = EvaluationOptions(state=state, shard=f"{number}/2", random_passes=5, gradient_passes=2)
        athe_tf.evaluate(model, (IMAGES, labels), options=options, **settings)
    merged = EvaluationOptions(shards=states, random_passes=5, gradient_passes=2)
    found = athe_tf.evaluate(model, (IMAGES, labels), options=merged, **settings)
    assert found["fgsm"].broken_passes.max() <= 5 and found.randomized["needed"] == 3
    assert found.worst_case_accuracy == found.randomized["majority_accuracy"]
    for other in ({"random_passes": 7}, {"random_passes": 5, "gradient_passes": 3}):
        with pytest.raises(InputError, match="passes=.*in the file: .*5, 2 for gradients"):
            options = EvaluationOptions(shards=states, **other)
            athe_tf.evaluate(model, (IMAGES, labels), options=options, **settings)


def test_mean_majority_and_bound_are_those_of_the_binomial_distribution():
    outcome = athe_tf.evaluation.AttackOutcome(
        "pgd", np.ones(17, bool), broken_passes=np.arange(17), norm="linf", epsilon=0.1
    )
    result = athe_tf.evaluation.Result("m", "d", "linf", 0.1, 0, np.ones(17, bool), [outcome])
    found = randomized_accuracies(result, np.zeros(17, int), 16)
    sure = [count for count in range(17) if stats.binomtest(count, 16, 0.5, "less").pvalue <= 0.05]
    assert found["lower_bound"] == pytest.approx(len(sure) / 17)
    assert found["majority_accuracy"] == pytest.approx(9 / 17) and found["mean_accuracy"] == pytest.approx(
        0.5
    )


def test_gradients_are_those_of_the_mean_of_several_passes():
    slopes = tf.Variable(0.0)

    def model(x):
        slope = slopes.assign_add(1.0)
        return tf.stack([tf.zeros_like(x[:, 0, 0, 0]), slope * x[:, 0, 0, 0]], axis=1)

    victim = majority_of(athe_tf.victim(model, num_classes=2), 3, 4)
    assert (victim.passes, victim.source.passes) == (3, 4)
    x = tf.constant(IMAGES[:2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = victim.source.logits(x)
    gradient = tape.gradient(logits, x)[:, 0, 0, 0]
    np.testing.assert_allclose(gradient, [2.5, 2.5])  # of 1, 2, 3, 4
