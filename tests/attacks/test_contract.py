"""The contract of an attack, over the whole registry: a new entry is tested by being registered."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.attacks import swift
from athe_tf.attacks.cascade import CHECK_QUERIES, Cascade
from athe_tf.attacks.engine.arguments import constructor_arguments
from athe_tf.utils.choices import NORMS, STARTS
from athe_tf.utils.errors import InputError
from tests.linear_case import predictions

SHAPE, CLASSES, EPSILON = (8, 8, 1), 5, 0.03
# Settings that save time. Attacks that are not listed take three steps, or twenty queries.
CHEAP: dict[str, dict] = {
    "fgsm": {},
    "epsilon-search": {"attack": "pgd-3", "search_steps": 3},
    "cr": {"cycles": 1, "restarts": 2},
    "cw-l2": {"steps": 3, "search_steps": 2},
    "feature": {"steps": 2, "n_targets": 2},
    "nes": {"steps": 2, "samples": 3},
    "spsa": {"steps": 2, "samples": 3},
    "autoattack": {"version": "custom", "attacks": ["fgsm", "square-20"]},
    "autoattack-plus": {"profile": "smoke"},
    "autoattack-rand": {"profile": "smoke"},
    "swift": {"n_targets": 1, "detector_queries": 20, "n_queries": 30},
    "autoattack-lite": {"version": "custom", "attacks": ["fgsm", "square-20"]},
}
# Values that arguments with a choice may take.
CHOICES = (
    *NORMS,
    *STARTS,
    "ce",
    "margin",
    "any",
    "last",
    "standard",
    "rand",
    "lite",
    "smoke",
    "threshold",
    "fgsm",
)


def cheap_attack(name: str):
    attack_class = attacks.ATTACKS.get(name)
    default = {"steps": 3, "n_queries": 20}
    usual = {key: default[key] for key in default if key in constructor_arguments(attack_class)}
    norm = attack_class.norms[0]
    return attacks.get(name, epsilon=EPSILON, norm=norm, **CHEAP.get(name, usual))


def small_model():
    """Linear, so that rounding decides on nothing, with the moving averages of batch normalization."""
    rng = np.random.default_rng(0)
    inputs = keras.Input(SHAPE)
    h = keras.layers.Flatten()(keras.layers.BatchNormalization()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(h))
    model.layers[-1].set_weights([rng.normal(size=(64, CLASSES)), rng.normal(size=CLASSES)])
    return model


class Case:
    """A model, images that it classifies correctly, and a victim that counts its passes."""

    def __init__(self):
        self.model = small_model()
        self.x = np.random.default_rng(1).uniform(size=(9, *SHAPE)).astype("float32")
        self.y = predictions(self.model, self.x)
        self.passes, self.backward = (tf.Variable(0, dtype=tf.int64) for _ in range(2))
        inner = athe_tf.victim(self.model)
        self.victim = attacks.Victim(
            lambda x: self._counted(inner.logits, x),
            features=lambda x: self._counted(inner.features, x),
            head=inner.head,
            num_classes=CLASSES,
            digest=inner.digest,
        )

    def _counted(self, function, x):
        images = tf.cast(tf.shape(x)[0], tf.int64)
        self.passes.assign_add(images)

        @tf.custom_gradient
        def identity(x):
            def back(upstream):
                self.backward.assign_add(images)
                return upstream

            return tf.identity(x), back

        return function(identity(x))

    def run(self, attack, batch_size=9, images=None, **kwargs):
        """`(result, forward passes)`."""
        self.passes.assign(0)
        self.backward.assign(0)
        x, y = (self.x, self.y) if images is None else images
        result = attack.run(self.victim, x, y, seed=3, batch_size=batch_size, **kwargs)
        return result, int(self.passes.numpy())

    def robust_images(self):
        """Images, with their labels, that no perturbation within epsilon changes the prediction of."""
        kernel = self.model.layers[-1].get_weights()[0]
        labels = np.arange(9) % CLASSES
        x = 0.5 + 0.45 * np.sign(kernel[:, labels] - kernel.mean(1, keepdims=True)).T
        x = x.reshape(9, *SHAPE).astype("float32")
        np.testing.assert_array_equal(predictions(self.model, x), labels)
        return x, labels.astype("int32")


@pytest.fixture(scope="module")
def case():
    return Case()


@pytest.fixture(scope="module", params=list(attacks.ATTACKS))
def attack(request):
    """One object for all tests of an attack: what takes time is to trace it."""
    return cheap_attack(request.param)


def assert_admissible(attack, x, x_adv):
    assert x_adv.shape == x.shape and np.isfinite(x_adv).all()
    assert x_adv.min() >= 0 and x_adv.max() <= 1
    if attack.in_ball:
        assert attack.threat.distance(x, x_adv).numpy().max() <= EPSILON * (1 + 1e-5)


def test_it_stays_in_ball_and_box_and_changes_neither_inputs_nor_variables(attack, case):
    x, y = case.x.copy(), case.y.copy()
    variables = [variable.numpy().copy() for variable in case.model.variables]
    result, _ = case.run(attack)
    assert_admissible(attack, x, result.x_adv)
    np.testing.assert_array_equal(result.x_adv[~result.success], x[~result.success])
    np.testing.assert_array_equal(predictions(case.model, result.x_adv) != y, result.success)
    np.testing.assert_array_equal(case.x, x)
    np.testing.assert_array_equal(case.y, y)
    for variable, before in zip(case.model.variables, variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), before)


def test_a_call_gives_admissible_images(attack, case):
    if type(attack).craft is Cascade.craft:
        with pytest.raises(InputError, match="for evaluation"):
            attack(case.victim, case.x, case.y)
    else:
        assert_admissible(attack, case.x, attack(case.victim, case.x, case.y).numpy())


def test_it_is_deterministic_and_independent_of_the_batch_size(attack, case):
    # In the largest, rounds share a batch.
    (one, _), (two, _), (small, _), (large, _) = (case.run(attack, size) for size in (9, 9, 4, 60))
    for name in ("x_adv", "success", "queries", "gradients", "norm", "rounds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    np.testing.assert_array_equal(one.success, small.success)
    for name in ("success", "rounds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(large, name), err_msg=name)


def test_it_counts_its_passes(attack, case):
    # One image at a time, so that no image stays in a batch after its success.
    result, passes = case.run(attack, batch_size=1)
    assert result.queries.sum() == passes
    assert result.gradients.sum() == int(case.backward.numpy())
    assert (result.queries >= 1).all()
    # In larger batches solved images may stay for a while, which is not counted.
    result, passes = case.run(attack)
    assert result.queries.sum() <= passes


def test_its_rounds_cost_no_more_than_announced(attack, case):
    # The budget of `max_passes` relies on it. One pass goes to the clean image.
    result, _ = case.run(attack)
    allowed = np.ones(len(case.x)) + (CHECK_QUERIES + 1 if isinstance(attack, Cascade) else 0)
    for member, stage in zip(attack.schedule.members(case.victim), result.stages, strict=True):
        allowed += member.schedule.prepare(case.victim, case.x, case.y, 9)
        taken = np.clip(result.rounds - stage.first, 0, stage.rounds)
        allowed += taken * member.round_passes(case.victim)
    assert (result.passes <= allowed).all()


def passes_announced(attack, victim, images):
    """What an attack says that it takes in all for an image that withstands it."""
    checks = CHECK_QUERIES + 1 if isinstance(attack, Cascade) else 0
    announced = 1.0 + checks
    for member in attack.schedule.members(victim):
        announced += member.schedule.prepare(victim, *images, 9)
        announced += member.rounds(victim) * member.round_passes(victim)
    return announced


# These leave an image early: their steps, searches or stages end where they make no progress.
MAY_END_EARLY = {"cr", "swift", "deepfool", "cw-l2", "zoo"}


def test_a_robust_image_costs_exactly_what_was_announced(attack, case):
    if attack.name in MAY_END_EARLY:
        pytest.skip("It may end early.")
    if attack.name == "spatial":
        pytest.skip("No ball bounds its moves: see below.")
    images = case.robust_images()
    result, _ = case.run(attack, images=images)
    assert not result.success.any()
    np.testing.assert_array_equal(result.passes, passes_announced(attack, case.victim, images))


# Settings that change the cost: `(norm, arguments)`.
COSTS = {
    "pgd-2x3": ("linf", {"loss": "kl"}),
    "bim-3": ("l2", {"select": "last"}),
    "apgd-ce-2x2": ("linf", {"loss": "kl"}),
    "apgd-ce-3": ("linf", {"eot_samples": 4}),
    "apgd-ce-10": ("l1", {"larger_epsilon": True}),
    "apgd-t-2x2": ("l2", {"n_targets": 2}),
    "fab-3x2": ("linf", {"reuse_passes": True}),
    "fab-t-2": ("l1", {"n_targets": 3, "reuse_passes": True}),
    "fab-2": ("l2", {"clip_to_epsilon": True}),
    "square-5x2": ("l2", {}),
    "nes-2": ("l2", {"samples": 5}),
    "spatial-3": ("linf", {"rotation": 0.0, "translation": 0.0}),
    "spatial": ("linf", {"rotation": 0.0, "translation": 0.0, "grid": (1, 2, 3)}),
}


@pytest.mark.parametrize("name", COSTS)
def test_settings_that_cost_passes_are_announced(name, case):
    norm, arguments = COSTS[name]
    attack = attacks.get(name, epsilon=EPSILON, norm=norm, **arguments)
    images = case.robust_images()
    result, passes = case.run(attack, images=images)
    assert not result.success.any()
    assert (result.queries.sum(), result.gradients.sum()) == (passes, int(case.backward.numpy()))
    np.testing.assert_array_equal(result.passes, passes_announced(attack, case.victim, images))


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_stages_of_swift_in_other_norms_are_counted_and_announced(norm, case, monkeypatch):
    for name in ("SPARSE_STEPS", "LAST_STEPS", "FAB_STEPS"):
        monkeypatch.setattr(swift, name, 4)
    attack = attacks.Swift(0.3, norm, **CHEAP["swift"])
    result, passes = case.run(attack, batch_size=1)
    assert (result.queries.sum(), result.gradients.sum()) == (passes, int(case.backward.numpy()))
    allowed = np.full(len(case.x), 1.0 + CHECK_QUERIES + 1)
    for member, stage in zip(attack.attacks, result.stages, strict=True):
        allowed += np.clip(result.rounds - stage.first, 0, stage.rounds) * member.round_passes(case.victim)
    assert (result.passes <= allowed).all() and not result.success.all()


def test_the_tangent_of_local_linearity_is_computed_once_and_counted(case):
    search = attacks.LocalLinearity(1e-6, steps=4)
    result, passes = case.run(search)
    # The clean pass, the tangent, four steps and the test of the last point.
    assert passes == result.queries.sum() == len(case.x) * (1 + 1 + 4 + 1)
    assert result.gradients.sum() == len(case.x) * (1 + 4)


def test_its_repr_makes_it_again(attack):
    names = {name: getattr(attacks, name) for name in attacks.__all__}
    again = eval(repr(attack), names)
    assert type(again) is type(attack) and repr(again) == repr(attack)
    assert again.settings() == attack.settings()
    assert set(constructor_arguments(type(attack))) == set(attack.settings())


def other_values(value, case):
    """Values of the same kind as `value`."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [0.9 * value, 1.1 * value, value + 0.1]
    if isinstance(value, dict):
        return [value | {"loss": "margin"}]
    if isinstance(value, list):
        return [value[:-1], [item + 1 for item in value]]
    if isinstance(value, str):
        return [text for text in CHOICES if text != value] + [2.0]
    return [1, (case.x, case.y), ["fgsm"]]


def changed_attacks(attack, case):
    """`(argument, the attack with another value of it)` for all arguments that its class leaves open."""
    for name, value in attack.settings().items():
        for other in other_values(value, case):
            try:
                changed = type(attack)(**attack._given | {name: other})
            except (InputError, TypeError):
                continue
            if changed.settings() != attack.settings():
                changed.name = attack.name
                yield name, changed
                break


def test_a_state_file_refuses_every_changed_setting(attack, case, tmp_path):
    path = tmp_path / "state.npz"
    case.run(attack, state=path)
    changed = dict(changed_attacks(attack, case))
    # A class may fix some of them: FGSM its steps, RayS its norm, APGD-T its loss.
    fixed = {"attacks", "larger_epsilon", "loss", "norm", "steps", "targeted", "version"}
    assert set(attack.settings()) - set(changed) <= fixed
    assert {"epsilon"} < set(changed)
    for name, other in changed.items():
        with pytest.raises(InputError, match=rf"belongs to another evaluation.*\b{re.escape(name)}="):
            case.run(other, state=path)
