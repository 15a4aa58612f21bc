"""Transfer matrices: what they are made of, and how they print."""

import numpy as np
import pytest

from athe_tf import attacks
from athe_tf.attacks.transfer import HE, HE_ATTACKS, TransferMatrix, transfer_matrix
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = gray_images()
ATTACK = attacks.get("pgd-5", epsilon=0.01)


@pytest.fixture(scope="module")
def models():
    return [linear_model(seed=0), linear_model(seed=1), linear_model(seed=0, scale=3.0)]


@pytest.fixture(scope="module")
def labels(models):
    y = predictions(models[0], IMAGES)
    y[:4] = (y[:4] + 1) % 5  # some that the first model gets wrong
    return y


def test_an_entry_is_the_accuracy_of_one_model_on_the_images_of_another(models, labels):
    matrix = transfer_matrix(models, IMAGES, labels, ATTACK, seed=3)
    for row, source in enumerate(models):
        x_adv = ATTACK(source, IMAGES, labels, seed=3).numpy()
        expected = [(predictions(target, x_adv) == labels).mean() for target in models]
        np.testing.assert_allclose(matrix.accuracies[row], expected)
    clean = [(predictions(m, IMAGES) == labels).mean() for m in models]
    np.testing.assert_allclose(matrix.clean, clean)
    # The third is the first, rescaled: what fools one fools the other. The second knows nothing of them.
    assert matrix.accuracies[0, 0] < 0.7 and abs(matrix.accuracies[0, 2] - matrix.accuracies[0, 0]) < 1e-9
    assert abs(matrix.accuracies[0, 1] - matrix.clean[1]) < 0.2


def test_the_batch_size_does_not_matter(models, labels):
    whole, pieces = (
        transfer_matrix(models[:2], IMAGES, labels, ATTACK, batch_size=size).accuracies for size in (60, 7)
    )
    np.testing.assert_array_equal(whole, pieces)


def test_it_prints_as_a_table():
    matrix = TransferMatrix(
        "pgd-20", ["A", "B+HE"], np.array([[0.5, 0.625], [0.7, 0.45]]), np.array([0.8, 0.9])
    )
    assert str(matrix).splitlines() == [
        "pgd-20: made on      A   B+HE",
        "(clean)          80.00  90.00",
        "A                50.00  62.50",
        "B+HE             70.00  45.00",
    ]
    np.testing.assert_allclose(matrix.black_box, [0.7, 0.625])


def test_models_have_the_names_they_are_given_or_their_own(models, labels):
    named = transfer_matrix({"one": models[0], "two": models[1]}, IMAGES[:8], labels[:8], ATTACK)
    assert named.names == ["one", "two"]
    same = transfer_matrix([models[0], models[0]], IMAGES[:8], labels[:8], ATTACK)
    assert same.names == [f"{models[0].name} 1", f"{models[0].name} 2"]
    assert same.attack == "pgd-5" and same.settings["epsilon"] == 0.01


def test_the_setting_of_the_paper():
    for name in HE_ATTACKS:
        attack = attacks.get(name, **HE)
        assert (attack.threat.epsilon, attack.step_size, attack.steps) == (0.031, 0.003, 20)


@pytest.mark.parametrize(
    "given, names, message",
    [([], None, "at least one model"), ([linear_model()], ["a", "b"], "2 names for 1 models")],
)
def test_what_cannot_work_is_refused(given, names, message, labels):
    with pytest.raises(InputError, match=message):
        transfer_matrix(given, IMAGES, labels, ATTACK, names=names)
