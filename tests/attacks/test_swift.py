"""Swift: who goes on to which stage, what its notes say, and that only the image itself decides."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks
from athe_tf.attacks import swift
from athe_tf.attacks.constraint_relaxation import closest_margin
from tests.curved_case import curved_model
from tests.linear_case import gray_images, linear_model, predictions, radii

IMAGES = gray_images(40)


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def in_norm(linear):
    """`(attack, result, radii)` by norm; in l1, where projections are slow, with fewer steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swift, "SPARSE_STEPS", 6)
        patch.setattr(swift, "LAST_STEPS", 6)
        patch.setattr(swift, "LAST_STARTS", 2)
        patch.setattr(swift, "FAB_STEPS", 15)
        yield functools.cache(lambda norm: attacked(linear, norm))


@pytest.fixture(scope="module")
def honest(in_norm):
    """In linf, on a model whose gradients tell the truth."""
    return in_norm("linf")


@pytest.fixture(scope="module", params=["l2", "l1"])
def honest_elsewhere(in_norm, request):
    """In another norm."""
    return in_norm(request.param)


@pytest.fixture(scope="module", params=["linf", "l2", "l1"])
def honest_anywhere(in_norm, request):
    """In any norm."""
    return in_norm(request.param)


def attacked(model, norm):
    y = predictions(model, IMAGES)
    radius = radii(model, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    attack = attacks.Swift(epsilon=epsilon, norm=norm, n_queries=400, detector_queries=30)
    return attack, attack.run(model, IMAGES, y), radius


def stage_of(result, name):
    return next(stage for stage in result.stages if stage.name == name)


def assert_exact(attack, result, radius):
    clear = abs(radius / attack.epsilon - 1) > 0.01
    np.testing.assert_array_equal(result.success[clear], (radius < attack.epsilon)[clear])


def test_the_flags_of_a_linear_model_are_exact(honest):
    assert_exact(*honest)


def test_the_flags_of_a_linear_model_are_exact_in_other_norms(honest_elsewhere):
    attack, result, _ = honest_elsewhere
    assert_exact(*honest_elsewhere)
    gradients = {"l2": ["cr", "apgd-t", "fab-t"], "l1": ["apgd-ce", "apgd-t", "fab-t", "apgd-ce-restarts"]}
    searches = ["square-detector", "square-second-look", "square"]
    assert [stage.name for stage in result.stages] == [*gradients[attack.norm], *searches]
    assert len(result.notes) == 1 and "not AutoAttack" in result.notes[0]


def test_expensive_stages_are_for_images_whose_boundary_came_close(honest_elsewhere):
    attack, result, radius = honest_elsewhere
    name, reach = {"l2": ("fab-t", 0.5), "l1": ("apgd-ce-restarts", 1.25)}[attack.norm]
    member = next(member for member in attack.attacks if member.name == name)
    admitted = attack.schedule.eligible_images(member, result)
    # In l2 the distance left at the edge of the ball, in l1 that of the nearest adversarial image.
    distance = radius / attack.epsilon - (1.0 if attack.norm == "l2" else 0.0)
    survived = ~result.success
    close, far = survived & (distance < reach - 0.02), survived & (distance > reach + 0.02)
    assert close.any() and far.any()
    assert admitted[close].all() and not admitted[far].any()
    assert result.passes[close].min() > result.passes[far].max() + 20


def test_the_short_form_for_validation_is_cr_with_one_start_per_target(honest, linear):
    attack, _, radius = honest
    y = predictions(linear, IMAGES)
    found = attack(linear, IMAGES, y, seed=1).numpy()
    short = attacks.ConstraintRelaxation(attack.epsilon)(linear, IMAGES, y, seed=1)
    np.testing.assert_array_equal(found, short)
    assert np.abs(found - IMAGES).max() <= attack.epsilon + 1e-6
    clear = abs(radius / attack.epsilon - 1) > 0.01
    wrong = predictions(linear, found) != y
    np.testing.assert_array_equal(wrong[clear], (radius < attack.epsilon)[clear])
    # Ten steps and their test, two targets chosen among four wrong classes, 20 steps toward each of them.
    victim = attacks.victim(linear)
    assert attack.schedule.craft_passes(victim) == 21 + 1 + 4 + 2 * 50


def test_it_says_that_it_is_not_autoattack(honest):
    _, result, _ = honest
    assert "not AutoAttack" in result.notes[0]
    assert not any("mislead" in note for note in result.notes)


def test_only_images_that_came_close_get_more_gradients(honest):
    attack, result, radius = honest
    survived = ~result.success
    # The distance at the edge of the ball; a linear model has the same slope everywhere.
    close = survived & (radius / attack.epsilon - 1 < attack.come_close - 0.02)
    far = survived & (radius / attack.epsilon - 1 > attack.come_close + 0.02)
    assert close.any() and far.any()
    assert result.gradients[close].min() > result.gradients[far].max() + 300
    np.testing.assert_array_equal(attack.schedule.eligible_images(attack.attacks[1], result)[close], True)
    np.testing.assert_array_equal(attack.schedule.eligible_images(attack.attacks[1], result)[far], False)


def masked(linear):
    """Pixels rounded to a fine grid: the gradient of `tf.round` is zero, random search does not need it."""
    return attacks.Victim(
        lambda x: linear(tf.round(x * 1000.0) / 1000.0 + 0.0 * x), num_classes=5, name="masked"
    )


def test_square_goes_on_where_gradients_mislead(linear):
    y = predictions(linear, IMAGES)
    epsilon = float(2.5 * np.median(radii(linear, IMAGES, y, "linf")))
    attack = attacks.Swift(epsilon=epsilon, n_queries=1500, detector_queries=60)
    result = attack.run(masked(linear), IMAGES, y)
    left = [int(result.robust_after(stage).sum()) for stage in result.stages if stage.name != "apgd-t"]
    assert left[-1] < left[0] and left[-1] < int(
        result.robust_after(stage_of(result, "square-detector")).sum()
    )
    warned = [note for note in result.notes if "mislead" in note]
    assert [note.id for note in warned] == ["misleading-gradients"] and "1500 queries" in warned[0]


def test_the_detector_has_a_second_look_where_its_margin_is_a_little_smaller(honest_elsewhere):
    attack, result, _ = honest_elsewhere
    gradients = result.memory["cr" if attack.norm == "l2" else "apgd-t"]
    member = {member.name: member for member in attack.attacks}
    survivor = np.flatnonzero(~result.success)[0]
    memory = {name: values.copy() for name, values in result.memory.items()}
    for share, looks, goes_on in ((0.95, False, False), (0.85, True, False), (0.7, True, True)):
        memory["square-detector"][survivor, 0] = share * closest_margin(gradients)[survivor]
        changed = dataclasses.replace(result, memory=memory)
        for name, wanted in (("square-second-look", looks), ("square", goes_on)):
            assert attack.schedule.eligible_images(member[name], changed)[survivor] == wanted
    # The smaller of both looks counts.
    memory["square-detector"][survivor, 0] = 0.85 * closest_margin(gradients)[survivor]
    memory["square-second-look"][survivor, 0] = 0.7 * closest_margin(gradients)[survivor]
    changed = dataclasses.replace(result, memory=memory)
    assert attack.schedule.eligible_images(member["square"], changed)[survivor]


def test_a_few_images_where_square_came_close_are_no_warning(honest):
    attack, result, _ = honest
    memory = {name: values.copy() for name, values in result.memory.items()}
    survivors = np.flatnonzero(~result.success)
    for many, warned in ((2, False), (3, True)):
        memory["square-detector"][survivors[:many], 0] = -1.0
        told = attack.suspicions(dataclasses.replace(result, memory=memory))
        assert bool(told) == warned


def test_neither_other_images_nor_batches_change_the_flags(honest_anywhere, linear):
    attack, result, _ = honest_anywhere
    y = predictions(linear, IMAGES)
    halves = [
        attack.run(linear, IMAGES[rows], y[rows], ids=rows, batch_size=7)
        for rows in np.split(np.arange(len(y)), 2)
    ]
    for name in ("success", "rounds"):
        parts = np.concatenate([getattr(half, name) for half in halves])
        np.testing.assert_array_equal(parts, getattr(result, name), err_msg=name)


def test_a_resume_changes_no_flag(honest_anywhere, linear, tmp_path):
    attack, result, _ = honest_anywhere
    calls = []

    def interrupt(*_):
        calls.append(1)
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt

    for _ in range(30):
        try:
            settings = {"state": tmp_path / "state.npz", "progress": interrupt}
            resumed = attack.run(linear, IMAGES, predictions(linear, IMAGES), **settings)
            break
        except KeyboardInterrupt:
            continue
    assert len(calls) >= 6  # two interruptions
    for name in ("success", "rounds", "passes"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(result, name), err_msg=name)


def test_other_images_do_not_change_the_flags_of_an_image():
    model = curved_model((8, 8, 1), classes=5)
    x = np.random.default_rng(5).uniform(size=(24, 8, 8, 1)).astype("float32")
    y = predictions(model, x)
    attack = attacks.Swift(epsilon=0.02, n_targets=2, detector_queries=20, n_queries=50)
    whole = attack.run(model, x, y)
    halves = [attack.run(model, x[r], y[r], ids=r, batch_size=5) for r in np.split(np.arange(24), 2)]
    assert 0 < whole.success.sum() < 24
    np.testing.assert_array_equal(np.concatenate([half.success for half in halves]), whole.success)


def test_it_does_not_repeat_warnings_about_the_scale_of_the_logits(linear):
    y = predictions(linear, IMAGES)
    loud = attacks.Victim(lambda x: 1000.0 * linear(x), num_classes=5)
    told = [attack.schedule.check_model(loud, IMAGES, y) for attack in (
        attacks.Swift(0.01), attacks.AutoAttack(0.01, profile="smoke")
    )]  # fmt: skip
    assert told[0] == [] and any("cross-entropy" in note for note in told[1])
