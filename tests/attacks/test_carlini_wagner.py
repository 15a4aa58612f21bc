"""C&W in l2: the exact radius on linear models, confidence, counting in linf, costs."""

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(40)


@pytest.fixture(scope="module")
def two_classes():
    return linear_model(classes=2)


def test_the_radius_is_found_and_success_is_exact(two_classes):
    y = predictions(two_classes, IMAGES)
    radius = radii(two_classes, IMAGES, y, "l2")
    epsilon = float(np.median(radius))
    result = attacks.get("cw-l2-100", epsilon=epsilon).run(two_classes, IMAGES, y)
    np.testing.assert_array_less(result.norm, radius * 1.02)
    assert (result.norm >= radius * 0.9999).all()
    clear = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[clear], (radius < epsilon)[clear])


def test_with_several_classes_a_second_start_finds_all_radii():
    model = linear_model()
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, "l2")
    # The margin follows the likeliest class, which is not always the nearest: a local optimum, that another
    # start leaves. A tiny epsilon, because images within epsilon are done.
    ratio = attacks.CWL2(1e-4, steps=100, restarts=2).run(model, IMAGES, y).norm / radius
    np.testing.assert_array_less(ratio, 1.02)
    assert (ratio >= 0.9999).all()


@pytest.mark.parametrize("initial_c", [1e-4, 1.0])
def test_the_search_forgets_where_it_began(two_classes, initial_c):
    y = predictions(two_classes, IMAGES)
    radius = radii(two_classes, IMAGES, y, "l2")
    attack = attacks.CWL2(0.1, steps=100, initial_c=initial_c, search_steps=14)
    result = attack.run(two_classes, IMAGES, y)
    assert np.median(result.norm / radius) < 1.01 and (result.norm < radius * 1.1).all()


def test_confidence_is_a_distance_between_logits(two_classes):
    y = predictions(two_classes, IMAGES)
    attack = attacks.CWL2(5.0, steps=100, confidence=2.0)
    logits = np.asarray(two_classes(attack.run(two_classes, IMAGES, y).x_adv))
    gap = logits[np.arange(40), 1 - y] - logits[np.arange(40), y]
    assert (gap >= 2.0 - 1e-4).all() and np.median(gap) < 2.1


def test_counted_in_linf_the_same_images_are_judged_by_another_ruler(two_classes):
    y = predictions(two_classes, IMAGES)
    l2 = attacks.CWL2(10.0, steps=50, search_steps=5).run(two_classes, IMAGES, y)
    largest = abs(l2.x_adv - IMAGES).max((1, 2, 3))
    epsilon = float(np.median(largest)) * 1.001
    linf = attacks.CWL2(epsilon, norm="linf", steps=50, search_steps=5).run(two_classes, IMAGES, y)
    np.testing.assert_allclose(linf.norm, largest, rtol=1e-4)
    np.testing.assert_array_equal(linf.success, largest <= epsilon)


def test_a_search_ends_for_each_image_by_itself():
    kernel = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    passes = []

    def counted(x):
        with tf.control_dependencies([tf.py_function(lambda n: passes.append(int(n)), [tf.shape(x)[0]], [])]):
            return tf.matmul(tf.reshape(x, [-1, 6]), kernel)

    x = np.random.default_rng(1).uniform(0.3, 0.7, (8, 2, 3, 1)).astype("float32")
    y = (x.reshape(8, 6) @ kernel).argmax(1)
    attack = attacks.get("cw-l2-40", epsilon=0.1, search_steps=3)
    together = attack.run(counted, x, y)
    passes.clear()
    alone = [attack.run(counted, x[[i]], y[[i]]) for i in range(8)]
    # Alone in its batch an image is never kept waiting, so every pass of the model is its own.
    assert sum(passes) == sum(int(result.queries[0]) for result in alone)
    np.testing.assert_array_equal(together.queries, [int(result.queries[0]) for result in alone])
    np.testing.assert_array_equal(together.gradients, together.queries - 1)
    assert together.queries.max() <= 1 + 3 * 40 and together.queries.min() < together.queries.max()
