"""Two streams change the speed of an attack and nothing else."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks.engine import driver
from athe_tf.models.victim import Victim
from athe_tf.saving.opening import victim
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = gray_images(64)


def crafted(model, y, monkeypatch, count):
    monkeypatch.setattr(driver, "stream_count", lambda: count)
    attack = attacks.get("pgd-5", epsilon=0.05)
    target = victim(model)

    @tf.function(autograph=False)
    def inside():
        return attack(target, tf.constant(IMAGES), tf.constant(y), seed=3)

    return inside().numpy()


def test_crafting_in_two_streams_gives_the_same_images(monkeypatch):
    model = linear_model()
    y = predictions(model, IMAGES)
    one, two = (crafted(model, y, monkeypatch, count) for count in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_evaluation_in_two_streams_gives_the_same_verdicts(monkeypatch):
    model = linear_model()
    y = predictions(model, IMAGES)
    results = []
    for count in (1, 2):
        monkeypatch.setattr(driver, "stream_count", lambda count=count: count)
        results.append(attacks.get("pgd-5x2", epsilon=0.03).run(model, IMAGES, y, batch_size=10))
    np.testing.assert_array_equal(results[0].success, results[1].success)
    np.testing.assert_array_equal(results[0].queries, results[1].queries)


def test_mapping_keeps_the_order_and_raises_what_a_call_raises():
    squares = [lambda v: v * v] * 2
    assert list(driver.map_batches(squares, range(7))) == [(v, v * v) for v in range(7)]

    def fail(value):
        raise ValueError(f"no {value}")

    with pytest.raises(ValueError, match="no 3"):
        list(driver.map_batches([fail, fail], [3]))


def test_a_victim_in_training_mode_is_not_split(monkeypatch):
    monkeypatch.setattr(driver, "stream_count", lambda: 2)
    sizes = []

    def logits(x):
        sizes.append(x.shape[0])
        return tf.reshape(x, [-1, 40])[:, :3]

    for independent, size in ((True, 32), (False, 64)):
        sizes.clear()
        target = Victim(logits, num_classes=3, independent=independent)
        attack = attacks.get("pgd-1", epsilon=0.01)
        tf.function(lambda a=attack, t=target: a(t, IMAGES, tf.zeros(64, tf.int32)), autograph=False)()
        assert set(sizes) == {size}
