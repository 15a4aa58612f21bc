"""DDN, FMN and the search over epsilon on linear models, whose smallest perturbation is known."""

import numpy as np
import pytest

from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(30)
# How much longer than the exact distance a perturbation may be: DDN moves the radius by 5% in its last
# steps, FMN by 0.1%.
CASES = [
    ("ddn", "l2", {}, 0.06),
    ("fmn", "linf", {}, 0.02),
    ("fmn", "l2", {}, 0.02),
    ("fmn", "l1", {}, 0.02),
    ("epsilon-search", "linf", {"attack": "cw-linf-10"}, 0.01),
    ("epsilon-search", "l2", {"attack": "pgd-20", "attack_arguments": {"loss": "margin"}}, 0.01),
    ("epsilon-search", "l1", {"attack": "apgd-ce-30", "attack_arguments": {"loss": "margin"}}, 0.06),
]


@pytest.mark.parametrize("name, norm, arguments, excess", CASES)
def test_the_smallest_perturbation_of_a_linear_model_is_found(name, norm, arguments, excess):
    model = linear_model(classes=2)
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, norm)
    attack = attacks.get(name, epsilon=float(np.median(radius)), norm=norm, **arguments)
    result = attack.run(model, IMAGES, y)
    # Pixels are rounded to 3e-8, and a norm in l1 is the sum of 40 of them.
    assert (result.norm >= radius * (1 - 1e-5) - 2e-6).all()
    # A hundred steps of DDN shrink the first radius, 1.05, by 5% at most 98 times; ten radii halve epsilon
    # nine times.
    resolution = {"ddn": 1.05 * 0.95**98, "fmn": 1e-5, "epsilon-search": attack.epsilon / 2**8}[name]
    np.testing.assert_array_less(result.norm, radius * (1 + excess) + resolution)
    assert np.median(result.norm / radius) < 1 + excess / 2


def test_fmn_follows_the_margin_and_needs_no_scale():
    y = predictions(linear_model(), IMAGES)
    attack = attacks.get("fmn-20", epsilon=0.01)
    plain, scaled = (attack.run(linear_model(scale=scale), IMAGES, y) for scale in (1.0, 256.0))
    np.testing.assert_allclose(plain.norm, scaled.norm, rtol=1e-3)


def test_targeted_walks_reach_their_class():
    model = linear_model(3)
    clean = predictions(model, IMAGES)
    targets = (clean + 1) % 3
    for name in ("ddn", "fmn"):
        result = attacks.get(name, epsilon=100.0, norm="l2", steps=40, targeted=True).run(
            model, IMAGES, targets
        )
        assert result.success.mean() > 0.9
        np.testing.assert_array_equal(predictions(model, result.x_adv) == targets, result.success)


def test_every_image_is_searched_at_its_own_radii():
    model = linear_model()
    y = predictions(model, IMAGES)
    attack = attacks.get("epsilon-search", epsilon=0.01, attack="apgd-t-10", search_steps=6)
    whole = attack.run(model, IMAGES, y)
    alone = [attack.run(model, IMAGES[i : i + 1], y[i : i + 1], ids=[i]).norm[0] for i in range(5)]
    np.testing.assert_allclose(whole.norm[:5], alone, rtol=1e-4)


@pytest.mark.parametrize("name", ["fab", "deepfool", "spatial", "feature"])
def test_only_attacks_with_a_fixed_radius_are_searched(name):
    with pytest.raises(InputError, match="fixed radius"):
        attacks.get("epsilon-search", epsilon=0.1, attack=name)


def test_attacks_whose_rounds_depend_on_each_other_are_refused():
    model = linear_model()
    for name in ("cr", "autoattack"):
        with pytest.raises(InputError, match="do not depend on each other"):
            attacks.get("epsilon-search", epsilon=0.1, attack=name).run(
                model, IMAGES, predictions(model, IMAGES)
            )
