"""The test of the attacks themselves: planted adversarial examples are found by good attacks only."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks
from athe_tf.evaluation import attack_test, sanity
from athe_tf.evaluation.inputs import EvaluationInputs
from athe_tf.utils.errors import NotApplicable
from tests.linear_case import predictions

SHAPE, CLASSES, EPSILON = (8, 8, 1), 4, 0.1
IMAGES = np.random.default_rng(2).uniform(size=(12, *SHAPE)).astype("float32")


def k_winners(h):
    """The largest tenth of the entries of each image."""
    least = tf.math.top_k(h, h.shape[1] // 10)[0][:, -1:]
    return tf.where(h >= least, h, 0.0)


def rounded(logits):
    """Probabilities of two digits, with a gradient of zero."""
    probabilities = tf.nn.softmax(logits)
    return tf.round(100.0 * probabilities) / 100.0 + 0.0 * probabilities


def network(head="linear", activation=None, behind=None):
    """A random network on 8 x 8 pixels, with a hidden layer wide enough for any read-out."""
    keras.utils.set_random_seed(0)
    h = inputs = keras.Input(SHAPE)
    for _ in range(3 if activation else 1):
        h = keras.layers.Dense(400)(keras.layers.Flatten()(h))
        h = keras.layers.Lambda(activation or tf.nn.relu)(h)
    last = keras.layers.Dense(CLASSES) if head == "linear" else athe_tf.CosineDense(CLASSES)
    outputs = last(h)
    return keras.Model(inputs, keras.layers.Lambda(behind)(outputs) if behind else outputs)


class WrongSign(attacks.PGD):
    """PGD that goes downhill."""

    name = "wrong-sign"

    def step(self, x_adv, gradient, memory, project):
        return super().step(x_adv, -gradient, memory, project)


class Compiled(keras.layers.Layer):
    """Layers inside a `tf.function`."""

    def __init__(self):
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(CLASSES)])

    @tf.function
    def call(self, x):
        return self.inner(x)


def probe_of(model, *wanted, norm="linf", epsilon=EPSILON):
    victim = athe_tf.victim(model)
    labels = predictions(victim.logits, IMAGES)
    inputs = EvaluationInputs.open(victim, IMAGES, labels, norm, epsilon, 0, 5)
    return sanity.SanityProbe(inputs, [], wanted=wanted)


def outcome_of(model, *wanted, **threat):
    probe = probe_of(model, *wanted, **threat)
    return attack_test.try_attacks(probe.inputs, probe.wanted, probe.rows, 1000 * len(IMAGES))


WEAK = {
    "a wrong sign": (WrongSign(EPSILON, steps=20), {}),
    "rounded probabilities": (attacks.PGD(EPSILON, steps=20), {"behind": rounded}),
    "k-winners-take-all": (attacks.PGD(EPSILON, steps=20), {"activation": k_winners}),
    "tiny steps": (attacks.PGD(EPSILON, steps=20, step_size=1e-5), {}),
}


@pytest.mark.parametrize("reason", WEAK)
def test_weak_attacks_do_not_find_what_exists(reason):
    attack, defense = WEAK[reason]
    test = outcome_of(network(**defense), attack)
    assert test.found.mean() < sanity.ENOUGH
    assert sum(test.passes) <= attack_test.MAX_PASSES * len(test.found)


@pytest.mark.parametrize("head", ["linear", "he"])
@pytest.mark.parametrize("name", ["pgd-20", "swift", "autoattack"])
def test_good_attacks_find_what_exists(name, head):
    test = outcome_of(network(head), attacks.get(name, epsilon=EPSILON))
    assert test.found.all() and not test.by_chance.any() and not test.left_out


def test_attacks_that_need_three_classes_are_left_out_and_named():
    dlr = attacks.get("apgd-dlr", epsilon=EPSILON)
    assert outcome_of(network(), dlr, attacks.PGD(EPSILON, steps=20)).left_out == ["apgd-dlr"]
    with pytest.raises(NotApplicable, match="none of apgd-dlr can be run on two classes"):
        outcome_of(network(), dlr)


@pytest.mark.parametrize(("norm", "epsilon"), [("l2", 0.5), ("l1", 2.0)])
def test_it_is_the_same_test_in_other_norms(norm, epsilon):
    good, bad = attacks.PGD(epsilon, norm, steps=20), WrongSign(epsilon, norm, steps=20)
    for attack, share in ((good, 1.0), (bad, 0.0)):
        assert outcome_of(network(), attack, norm=norm, epsilon=epsilon).found.mean() == share


@pytest.mark.parametrize("head", ["linear", "he"])
def test_the_point_at_the_edge_is_adversarial_and_the_image_is_not(head):
    probe = probe_of(network(head), attacks.PGD(EPSILON))
    readout = attack_test.ReadOut.fit(probe.inputs, probe.rows)
    assert readout.kept.all()
    logits = readout.victim(probe.inputs.victim).logits
    threat, ids = readout.ball, tf.constant(probe.rows)
    edge = threat.stretch(tf.constant(IMAGES), threat.random_direction(attack_test.SEED, ids, SHAPE))
    assert np.abs(edge - IMAGES).max() <= EPSILON + 1e-6
    assert (logits(edge).numpy().argmax(axis=1) == 1).all()
    clean = logits(tf.constant(IMAGES)).numpy()
    assert (clean.argmax(axis=1) == 0).all()
    # Logits have the scale of the model's: the mean gap between its two largest.
    own = np.sort(probe.inputs.clean.logits, axis=1)
    np.testing.assert_allclose(clean[:, 0] - clean[:, 1], (own[:, -1] - own[:, -2]).mean(), rtol=1e-2)


def test_a_line_of_the_sanity_sheet_says_what_was_found_and_what_it_cost():
    probe = probe_of(network(), attacks.PGD(EPSILON, steps=20))
    others = sum(sum(result.passes) for result in (probe.pgd, probe.sweep))
    check = sanity.attacks_find_what_exists(probe)
    assert check.status == "passed" and "find 100%, random search with as many queries 0%" in check.detail
    spent = probe.queries + probe.gradients - others
    assert spent == check.numbers["images"] * check.numbers["passes per image"] <= others
    assert sanity.attacks_find_what_exists(probe_of(network(), WEAK["a wrong sign"][0])).status == "failed"


@pytest.mark.parametrize(
    ("model", "attack", "reason"),
    [
        (keras.Sequential([keras.Input(SHAPE), keras.layers.Flatten()]), "pgd-2", "no Dense or CosineDense"),
        (lambda x: 5.0 * x[:, 0, :4, 0], "pgd-2", "offers logits only"),
        (network(behind=lambda z: z * tf.constant([1.0, 2.0, 1.0, 1.0])), "pgd-2", "cannot be taken apart"),
        (network(behind=lambda z: z + np.ones(4, "float32")), "pgd-2", "cannot be taken apart"),
        (network(), "square-5", "no attack of this evaluation follows gradients"),
    ],
)
def test_where_it_is_impossible_it_says_why(model, attack, reason):
    with pytest.raises(NotApplicable, match=reason):
        outcome_of(model, attacks.get(attack, epsilon=EPSILON))


def test_a_model_that_cannot_be_taken_apart_has_a_line_for_each_check_that_needs_it():
    probe = probe_of(keras.Sequential([keras.Input(SHAPE), Compiled()]), attacks.PGD(EPSILON, steps=2))
    inside = (sanity.layers_have_gradients, sanity.attacks_find_what_exists)
    found = [sanity._run_check(check, probe) for check in inside]
    assert {check.status for check in found} <= {"not run", "passed"} and found[1].status == "not run"
