"""AutoAttack: the cascade, its checks, its state file."""

import json
import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.attacks import AutoAttack
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions, radii
from tests.warm_processes import exit_code_of

IMAGES = gray_images()


@pytest.fixture(scope="module")
def linear():
    return linear_model()


@pytest.fixture(scope="module")
def smoke():
    """What takes time is to trace the attacks, so the tests share them."""
    return AutoAttack(epsilon=0.03, profile="smoke")


# -- exact cases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_falls_exactly_what_lies_within_epsilon_of_a_linear_boundary(linear, norm):
    y = predictions(linear, IMAGES)
    radius = radii(linear, IMAGES, y, norm)
    epsilon = float(np.median(radius))
    found = AutoAttack(epsilon, norm, profile="smoke").run(linear, IMAGES, y).success
    sure = abs(radius / epsilon - 1) > 0.03
    assert 0 < found.sum() < len(found)
    np.testing.assert_array_equal(found[sure], (radius < epsilon)[sure])


@pytest.mark.parametrize("classes", [2, 3, 1000])
def test_any_number_of_classes(classes):
    model = linear_model(classes, shape=(3, 4, 1))
    x = gray_images(12, shape=(3, 4, 1))
    y = predictions(model, x)
    radius = radii(model, x, y, "linf")
    epsilon = float(np.median(radius))
    result = AutoAttack(epsilon, profile="smoke").run(model, x, y)
    sure = abs(radius / epsilon - 1) > 0.03
    np.testing.assert_array_equal(result.success[sure], (radius < epsilon)[sure])


def test_a_callable_that_hides_its_classes_is_asked(linear):
    two = linear_model(2)
    y = predictions(two, IMAGES[:8])
    attack = AutoAttack(0.02, version="custom", attacks=["apgd-dlr-3", "apgd-ce-3"])
    result = attack.run(lambda x: two(x), IMAGES[:8], y)
    assert [stage.name for stage in result.stages] == ["apgd-ce-3"]
    assert any("Left out: apgd-dlr-3" in note for note in result.notes)


# -- the cascade ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version, norm, expected",
    [
        ("standard", "linf", {"apgd-ce": (100, 1), "apgd-t": (100, 1, 9), "fab-t": (100, 1, 9),
                              "square": 5000}),
        ("standard", "l1", {"apgd-ce": (100, 5), "apgd-t": (100, 1, 5), "fab-t": (100, 1, 9),
                            "square": 5000}),
        ("plus", "l2", {"apgd-ce": (100, 5), "apgd-dlr": (100, 5), "fab": (100, 5), "square": 5000,
                        "apgd-t": (100, 1, 9), "fab-t": (100, 1, 9)}),
        ("rand", "linf", {"apgd-ce": (100, 1), "apgd-dlr": (100, 1)}),
    ],
)  # fmt: skip
def test_versions_are_the_published_ones(version, norm, expected):
    found = {}
    for member in AutoAttack(0.1, norm, version=version).attacks:
        budget = (getattr(member, "steps", None), getattr(member, "restarts", None))
        targets = (member.n_targets,) if hasattr(member, "n_targets") else ()
        found[member.name] = member.n_queries if member.name == "square" else budget + targets
        if member.name.startswith("apgd"):
            assert member.eot_samples == (20 if version == "rand" else 1)
            assert member.larger_epsilon == (norm == "l1")
    assert found == expected
    assert list(found) == list(expected)


def test_each_stage_sees_only_what_the_last_left(linear):
    seen = []

    class Witness(attacks.PGD):
        def run_round(self, victim, x, y, ids, seed, round_index):
            tf.numpy_function(lambda v: seen.append((self.name, sorted(v.tolist()))), [ids], [])
            return super().run_round(victim, x, y, ids, seed, round_index)

    members = []
    for name in ("first", "second"):
        members.append(Witness(0.02, steps=10, loss="margin"))
        members[-1].name = name
    y = predictions(linear, IMAGES)
    y[:5] = (y[:5] + 1) % 5  # wrong from the start
    result = AutoAttack(0.02, version="custom", attacks=members).run(linear, IMAGES, y, batch_size=16)
    rows = {name: [i for who, ids in seen if who == name for i in ids] for name in ("first", "second")}
    first, second = result.stages
    assert sorted(rows["first"]) == list(range(5, 60))
    assert sorted(rows["second"]) == np.flatnonzero(result.robust_after(first)).tolist()
    sizes = {name: sorted(len(ids) for who, ids in seen if who == name) for name in rows}
    assert sizes["first"] == [13, 14, 14, 14]
    survivors = len(rows["second"])  # they fill new batches
    assert len(sizes["second"]) <= 2 * -(-survivors // 32) and sizes["second"][-1] - sizes["second"][0] <= 1
    np.testing.assert_array_equal(result.robust_after(second), ~result.success)


def test_the_union_of_individual_runs_is_what_the_cascade_finds(linear, smoke):
    y = predictions(linear, IMAGES)
    alone = smoke.run_individually(linear, IMAGES, y)
    assert list(alone) == ["apgd-ce", "apgd-t", "fab-t", "square"]
    union = np.any([result.success for result in alone.values()], axis=0)
    np.testing.assert_array_equal(union, smoke.run(linear, IMAGES, y).success)


def test_the_model_saw_each_image_as_often_as_is_counted(linear, smoke):
    asked = np.zeros(len(IMAGES), int)
    places = {image.tobytes(): row for row, image in enumerate(IMAGES)}
    clean_or_not = []

    def count(x):
        clean_or_not.append(len(x))
        for image in x:
            row = places.get(image.tobytes())
            if row is not None:
                asked[row] += 1
        return np.zeros((), np.float32)

    y = predictions(linear, IMAGES)
    y[:] = (y + 1) % 5  # every image is wrong from the start: clean pass and checks only

    def model(x):
        with tf.control_dependencies([tf.numpy_function(count, [x], tf.float32)]):
            return tf.identity(linear(x))

    result = smoke.run(model, IMAGES, y)
    np.testing.assert_array_equal(result.queries, asked)


# -- checks -----------------------------------------------------------------------------------------------


def test_a_weaker_profile_says_so(linear, smoke):
    y = predictions(linear, IMAGES[:8])
    notes = smoke.run(linear, IMAGES[:8], y).notes
    assert any("'smoke' is weaker than AutoAttack" in note for note in notes)
    assert smoke.settings()["profile"] == "smoke"


def test_chance_in_a_model_is_noticed(linear):
    y = predictions(linear, IMAGES[:8])

    def noisy(x):
        return linear(x) + tf.random.normal([tf.shape(x)[0], 5], stddev=0.3)

    one_step = {"version": "custom", "attacks": ["fgsm"]}
    notes = AutoAttack(0.001, **one_step).run(noisy, IMAGES[:8], y).notes
    assert any("change from pass to pass" in note for note in notes)
    steady = AutoAttack(0.001, **one_step).run(linear, IMAGES[:8], y).notes
    assert not any("change from pass to pass" in note for note in steady)


def test_averaged_passes_see_through_noise(linear):
    """Noise of the logits hides the gradient of one pass, not the mean of many."""
    y = predictions(linear, IMAGES[:20])
    radius = radii(linear, IMAGES[:20], y, "linf")
    direction = tf.random.Generator.from_seed(1)

    def noisy(x):
        hidden = direction.normal([tf.shape(x)[0], 4, 5, 2], stddev=30.0)
        bent = linear(x) + tf.reduce_sum(hidden * (x - tf.stop_gradient(x)), [1, 2, 3])[:, None] * [
            1.0,
            0,
            0,
            0,
            0,
        ]
        return bent

    epsilon = float(np.median(radius) * 1.1)
    success = [
        attacks.get("apgd-ce-10", epsilon=epsilon, eot_samples=n, loss="margin").run(noisy, IMAGES[:20], y)
        for n in (1, 40)
    ]
    assert success[1].success.sum() > success[0].success.sum()
    np.testing.assert_array_equal(success[1].gradients[~success[1].success], 400)


def test_images_without_gradient_are_noticed(linear):
    y = predictions(linear, IMAGES[:8])
    flat = AutoAttack(0.001, version="custom", attacks=["square-5"])
    notes = flat.run(lambda x: linear(tf.stop_gradient(x)) + 0 * linear(x), IMAGES[:8], y).notes
    assert any("have a zero gradient" in note for note in notes)


def test_a_black_box_that_beats_gradients_is_noticed():
    """Logits that are rounded have no gradient, and Square needs none."""
    model = linear_model(3, shape=(6, 6, 1))
    x = gray_images(40, shape=(6, 6, 1))
    y = predictions(model, x)

    def masked(v):
        logits = model(v)
        return tf.stop_gradient(logits) + 1e-9 * logits[:, ::-1]

    attack = AutoAttack(0.1, version="custom", attacks=["fgsm", "pgd-2", "square-300"])
    assert any("found adversarial examples" in note for note in _renamed(attack).run(masked, x, y).notes)
    alone = attack.run_individually(masked, x, y)
    assert any("is stronger than a gradient attack" in note for note in alone["square"].notes)


def _renamed(attack):
    attack.attacks[-1].name = "square"
    return attack


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"version": "standrad"}, "version"),
        ({"profile": "huge"}, "profile"),
        ({"version": "custom"}, "attacks"),
        ({"attacks": ["apgd-ce"]}, "version='custom'"),
        ({"version": "custom", "attacks": []}, "at least one"),
        ({"version": "custom", "attacks": ["fgsm", "fgsm"]}, "must differ"),
        ({"version": "custom", "attacks": ["apgd-cee"]}, "apgd-ce"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        AutoAttack(0.1, **arguments)


def test_a_member_of_another_threat_model_is_refused():
    with pytest.raises(InputError, match="share its norm and epsilon"):
        AutoAttack(0.1, version="custom", attacks=[attacks.PGD(0.2)])


def test_probabilities_are_refused(linear, smoke):
    def model(x):
        return tf.nn.softmax(linear(x))

    with pytest.raises(InputError, match="probabilities"):
        smoke.run(model, IMAGES[:8], predictions(linear, IMAGES[:8]))


# -- the state file ---------------------------------------------------------------------------------------


def test_the_state_continues_where_it_was(linear, tmp_path):
    """Interrupted after every batch in turn, the run ends as the undisturbed one."""
    attack = AutoAttack(0.03, version="custom", attacks=["pgd-3x2", "cw-linf-5"])
    y = predictions(linear, IMAGES)
    whole = attack.run(linear, IMAGES, y, batch_size=16)
    state, calls = tmp_path / "state.npz", []

    class Interruption(Exception):
        pass

    def interrupt(*_):
        calls.append(1)
        raise Interruption

    resumed = None
    while resumed is None:
        try:
            resumed = attack.run(linear, IMAGES, y, batch_size=16, state=state, progress=interrupt)
        except Interruption:
            assert len(calls) < 40
    assert len(calls) > 4
    for name in ("x_adv", "success", "gradients", "norm", "rounds"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name), err_msg=name)
    again = attack.run(linear, IMAGES, y, batch_size=16, state=state, progress=interrupt)
    np.testing.assert_array_equal(again.success, whole.success)


def test_a_state_of_something_else_is_refused(linear, tmp_path):
    settings = {"version": "custom", "attacks": ["fgsm"]}
    y, state = predictions(linear, IMAGES), tmp_path / "state.npz"
    AutoAttack(0.03, **settings).run(linear, IMAGES, y, state=state)
    kept = state.read_bytes()
    others = {
        "epsilon": (AutoAttack(0.04, **settings), linear, IMAGES, {}),
        "images and labels": (AutoAttack(0.03, **settings), linear, IMAGES[::-1].copy(), {}),
        "model": (AutoAttack(0.03, **settings), linear_model(scale=1.0001), IMAGES, {}),
        "seed": (AutoAttack(0.03, **settings), linear, IMAGES, {"seed": 1}),
    }
    for what, (attack, model, x, kwargs) in others.items():
        with pytest.raises(InputError, match=what):
            attack.run(model, x, y, state=state, **kwargs)
    assert state.read_bytes() == kept
    state.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        AutoAttack(0.03, **settings).run(linear, IMAGES, y, state=state)


def killable(**kwargs):
    """A run of ten batches or so."""
    model = linear_model()
    attack = AutoAttack(0.01, version="custom", attacks=["pgd-3x2", "square-30"])
    return attack.run(model, IMAGES, predictions(model, IMAGES), batch_size=16, **kwargs)


def die_after_six_batches(state):
    batches = []

    def kill(*_):
        batches.append(1)
        if len(batches) == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    killable(state=state, progress=kill)


def test_killed_and_run_again_it_gives_the_same(tmp_path):
    state, batches = tmp_path / "state.npz", []
    assert exit_code_of(die_after_six_batches, state) == -signal.SIGKILL
    resumed = killable(state=state, progress=lambda *_: batches.append(1))
    left = len(batches)
    whole = killable(progress=lambda *_: batches.append(1))
    assert len(batches) - left == left + 6  # six batches were not done again
    for name in ("x_adv", "success", "gradients", "norm", "rounds"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name), err_msg=name)


# -- the rest ---------------------------------------------------------------------------------------------


def test_the_estimate_of_work_only_shrinks(linear):
    attack = AutoAttack(0.02, version="custom", attacks=["pgd-3x2", "cw-linf-5"])
    seen = []
    attack.run(linear, IMAGES, predictions(linear, IMAGES), batch_size=16, progress=lambda *p: seen.append(p))
    done, most, robust = map(np.array, zip(*seen, strict=True))
    assert (np.diff(done) > 0).all() and (np.diff(most) <= 0).all() and (np.diff(robust) <= 0).all()
    assert done[-1] == most[-1]


def test_the_evaluator_knows_it(linear):
    report = athe_tf.evaluate(
        linear,
        (IMAGES, predictions(linear, IMAGES)),
        attacks=["autoattack-smoke"],
        epsilon=0.03,
        checks=False,
    )
    assert report["autoattack-smoke"].accuracy < 1
    json.dumps(report.to_dict())


def test_it_is_not_for_training(linear):
    with pytest.raises(InputError, match="evaluation"):
        AutoAttack(0.03)(linear, IMAGES[:4], predictions(linear, IMAGES[:4]))


def test_hypersphere_heads_and_one_channel():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((7, 5, 1))
    h = keras.layers.Flatten()(keras.layers.Conv2D(4, 3, activation="relu")(inputs))
    net = keras.Model(inputs, athe_tf.CosineDense(5, angular=True)(h))
    x = np.random.default_rng(0).uniform(size=(10, 7, 5, 1)).astype("float32")
    result = AutoAttack(0.3, "l2", profile="smoke").run(net, x, predictions(net, x))
    assert np.isfinite(result.x_adv).all()
    assert np.square(result.x_adv - x).sum(axis=(1, 2, 3)).max() <= 0.3**2 + 1e-6
