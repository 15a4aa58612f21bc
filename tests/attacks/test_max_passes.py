"""A budget of passes per image: it is never exceeded, and the result says who was stopped."""

import numpy as np
import pytest

from athe_tf import attacks
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(30)
# A round of 3 steps: 3 gradients and 4 queries. The clean pass is one more.
ROUND = 7


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def task(linear):
    """An attack with four restarts at a radius that half of the images survive, and its images."""
    y = predictions(linear, IMAGES)
    epsilon = float(np.median(radii(linear, IMAGES, y, "linf")))
    return attacks.get("cw-linf-3x4", epsilon=epsilon), linear, IMAGES, y


@pytest.mark.parametrize("budget, rounds", [(8, 1), (14, 1), (15, 2), (28, 3), (29, 4), (1000, 4)])
def test_no_round_begins_that_might_exceed_the_budget(task, budget, rounds):
    attack, *rest = task
    result = attack.run(*rest, max_passes=budget)
    robust = ~result.success
    assert robust.any() and (result.passes <= budget).all()
    assert (result.passes[robust] == 1 + rounds * ROUND).all()
    stopped = [note for note in result.notes if "budget" in note]
    assert len(stopped) == (rounds < 4)
    if stopped:
        assert stopped[0].startswith(f"{robust.sum()} of 30 images reached the budget of {budget} passes")


def test_a_budget_below_one_round_is_refused(task):
    attack, *rest = task
    with pytest.raises(InputError, match="takes up to 8 passes per image. Received: max_passes=7"):
        attack.run(*rest, max_passes=7)


def test_a_resumed_run_remembers_who_was_stopped(task, tmp_path):
    attack, *rest = task
    state = tmp_path / "state.npz"
    first, again = (attack.run(*rest, batch_size=8, state=state, max_passes=15) for _ in range(2))
    assert first.notes and first.notes == again.notes
    np.testing.assert_array_equal(first.rounds, again.rounds)
    with pytest.raises(InputError, match="max_passes="):
        attack.run(*rest, batch_size=8, state=state, max_passes=22)


def test_a_cascade_stops_at_the_budget_too(task):
    attack, *rest = task
    cascade = attacks.AutoAttack(epsilon=attack.epsilon, version="custom", attacks=["cw-linf-3", "square-50"])
    result = cascade.run(*rest, batch_size=30, max_passes=40)
    assert any("budget of 40 passes" in note for note in result.notes)
    assert result.queries.max() < 40
