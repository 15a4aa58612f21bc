"""Attacks that lead to a given class, on a linear model, where the distance to it is known."""

import numpy as np
import pytest

from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.linear_case import DUAL, gray_images, linear_model, predictions

IMAGES = gray_images(30)
TARGETED = [
    ("cw-linf-40", "linf", {}),
    ("pgd-40", "l2", {"loss": "margin"}),
    ("apgd-ce-40", "linf", {"loss": "margin"}),
    ("cw-l2-200", "l2", {"initial_c": 1.0, "learning_rate": 0.02}),
    ("square-1500", "linf", {}),
    ("nes-60", "linf", {"samples": 40}),
]


@pytest.fixture(scope="module")
def linear():
    return linear_model(3)


def distances(model, x, targets, norm):
    """The least norm that makes `targets` beat the two other classes, by the larger of the two gaps.

    A lower bound: one perturbation has to beat both.
    """
    kernel, bias = (np.asarray(w, "float64") for w in model.layers[-1].get_weights())
    logits = x.reshape(len(x), -1).astype("float64") @ kernel + bias
    needed = np.zeros(len(x))
    for other in range(kernel.shape[1]):
        gap = logits[:, other] - logits[np.arange(len(x)), targets]
        length = np.linalg.norm(kernel[:, targets] - kernel[:, [other]], DUAL[norm], axis=0)
        needed = np.maximum(needed, gap / np.maximum(length, 1e-12))
    return needed


@pytest.mark.parametrize("name, norm, kwargs", TARGETED)
def test_reaches_its_target_and_nothing_else_counts(linear, name, norm, kwargs):
    clean = predictions(linear, IMAGES)
    targets = (clean + 1) % 3
    targets[0] = clean[0]  # there already
    least = distances(linear, IMAGES, targets, norm)
    epsilon = float(2.0 * np.median(least))
    result = attacks.get(name, epsilon=epsilon, norm=norm, targeted=True, **kwargs).run(
        linear, IMAGES, targets
    )
    reached = predictions(linear, result.x_adv) == targets
    assert result.success[0] and result.norm[0] == 0
    assert not result.success[least > epsilon].any()
    assert result.success[least < 0.4 * epsilon].all()
    np.testing.assert_array_equal(result.success, reached)


@pytest.mark.parametrize("name", ["fab", "apgd-dlr", "apgd-t", "deepfool"])
def test_without_a_targeted_mode_there_is_no_such_argument(name):
    with pytest.raises(InputError, match="targeted"):
        attacks.get(name, epsilon=0.1, targeted=True)


def test_a_label_outside_the_classes_of_a_callable_is_refused_at_its_first_attack():
    x = np.full([3, 2, 2, 3], 0.5, "float32")
    with pytest.raises(
        InputError, match=r"Labels must be integers in 0..2 with 3 classes. Received: min=0, max=7"
    ):
        attacks.PGD(0.1, steps=1).run(lambda images: images[:, 0, 0, :], x, np.array([0, 1, 7]))
