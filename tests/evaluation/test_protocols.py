"""Protocols: what they consist of, at what radius, and what becomes of them at another."""

import subprocess
import sys

import numpy as np
import pytest

import athe_tf
import athe_tf.evaluation.evaluator as evaluator
from athe_tf import attacks, models
from athe_tf.attacks.transfer import transfer_matrix
from athe_tf.evaluation.attack_run import make_plan
from athe_tf.evaluation.corruptions import evaluate_corruptions
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.evaluation.protocols import PROTOCOLS, AttackSpec, Protocol, get_protocol, protocol_for
from athe_tf.saving.opening import victim
from athe_tf.utils.errors import InputError
from tests.small_runs import tiny_batch, tiny_net


def plan_of(name, epsilon=None, norm="linf", **settings):
    protocol = get_protocol(name)
    radius = epsilon or protocol.epsilon or 8 / 255
    plan = make_plan(protocol.attacks, radius, norm, published=protocol.epsilon, **settings)
    return {planned.label: planned for planned in plan}


def test_protocols_are_known_without_tensorflow():
    code = "import sys, athe_tf.evaluation.protocols; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_attack_of_every_protocol_can_be_made(name):
    for item in plan_of(name).values():
        assert item.attack is not None and item.attack.threat.norm == "linf"


def test_he2020_has_both_scales_and_the_settings_of_the_paper():
    plan = plan_of("he2020")
    published, own = plan["pgd-20 (scale 1)"].attack, plan["pgd-20"].attack
    assert published.logit_scale == 1.0 and published.select == "last" and own.logit_scale == "model"
    for attack in (published, own, plan["pgd-500"].attack, plan["mim-20"].attack):
        assert attack.threat.epsilon == 0.031 and attack.step_size == pytest.approx(0.003)
    assert plan["feature"].spec.limit == 1000 and plan["feature"].attack.n_targets == 200
    assert plan["cw-l2"].attack.threat.norm == "linf"  # counted at the epsilon
    assert {"fgsm", "deepfool-100", "cw-linf-20", "fab-20", "adaptive-pgd-500"} <= set(plan)
    assert "weak attack" in plan["mim-20 (scale 1)"].spec.note


def test_hypersphere_has_both_scales_and_strong_attacks_in_one_ball():
    plan = plan_of("hypersphere")
    assert list(plan) == ["pgd-20 (scale 1)", "pgd-20", "swift"]
    assert [plan[label].attack.logit_scale for label in ("pgd-20 (scale 1)", "pgd-20")] == [1.0, "model"]
    assert {item.attack.threat.epsilon for item in plan.values()} == {8 / 255}


def test_other_protocols_have_their_published_settings():
    table3 = plan_of("table3")["pgd-50x10"].attack
    assert (table3.steps, table3.restarts) == (50, 10)
    assert (table3.threat.epsilon, table3.step_size) == pytest.approx((8 / 255, 2 / 255))
    imagenet = plan_of("imagenet")
    assert list(imagenet) == ["pgd-10 (scale 1)", "pgd-50 (scale 1)", "pgd-10", "pgd-50"]
    assert imagenet["pgd-50"].attack.step_size == pytest.approx(1 / 255)
    blackbox = plan_of("blackbox")
    estimates = [f"{a}-{n}" for a in ("spsa", "nes") for n in (20, 50, 80)]
    assert list(blackbox) == ["zoo-20000", "zoo-20000 (threshold)", *estimates]
    assert blackbox["zoo-20000 (threshold)"].attack.mode == "threshold"
    assert blackbox["nes-80"].attack.samples == 128 and blackbox["nes-80"].attack.sigma == 0.001


@pytest.mark.parametrize(("name", "labels"), [("table3", ["pgd-50x10"]), ("imagenet", ["pgd-10", "pgd-50"])])
def test_the_tables_of_he_have_a_line_at_scale_one_beside_the_honest_one(name, labels):
    plan = plan_of(name)
    for label in labels:
        published, own = plan[f"{label} (scale 1)"], plan[label]
        assert (published.attack.logit_scale, own.attack.logit_scale) == (1.0, "model")
        assert "weak attack" in published.spec.note
        for setting in ("steps", "restarts", "step_size", "epsilon"):
            assert getattr(published.attack, setting) == getattr(own.attack, setting)


@pytest.mark.parametrize(
    ("dataset", "epsilon", "step"), [("cifar10", 8 / 255, 1 / 255), ("mnist", 0.4, 0.01)]
)
def test_pas_has_the_settings_of_the_released_code_for_each_data_set(dataset, epsilon, step):
    protocol = protocol_for("pas", dataset)
    plan = plan_of(protocol.name)
    assert list(plan) == ["pgd-100x10", "apgd-ce-100x5", "apgd-dlr-100x5", "square-5000"]
    assert protocol.epsilon == epsilon and plan["pgd-100x10"].attack.step_size == pytest.approx(step)
    assert [plan[f"apgd-{loss}-100x5"].attack.restarts for loss in ("ce", "dlr")] == [5, 5]
    assert plan["square-5000"].attack.n_queries == 5000


def test_the_mnist_challenge_is_measured_within_three_tenths():
    plan = plan_of("pas_challenge")
    assert [item.attack.restarts for item in plan.values()] == [1, 50]
    assert {(item.attack.epsilon, item.attack.step_size) for item in plan.values()} == {(0.3, 0.01)}


def test_rays_has_the_radius_of_its_own_benchmark_and_autoattack_that_of_the_protocol():
    plan = plan_of("benchmark")
    rays, autoattack = plan["rays-40000 @ 0.031"], plan["autoattack"]
    assert (rays.attack.n_queries, rays.attack.epsilon, rays.spec.limit) == (40_000, 0.031, 1000)
    assert autoattack.attack.epsilon == 8 / 255
    halved = plan_of("benchmark", epsilon=4 / 255)
    assert [item.attack.epsilon for item in halved.values()] == pytest.approx([0.0155, 4 / 255])


def test_steps_keep_their_proportion_to_another_epsilon():
    attack = plan_of("he2020", epsilon=0.062)["pgd-20"].attack
    assert attack.threat.epsilon == 0.062 and attack.step_size == pytest.approx(0.006)


def test_every_radius_of_a_curve_has_its_own_label():
    plan = make_plan(["fgsm", "fgsm"], 0.1, "linf", epsilons=(0.2, 0.1))
    assert [item.label for item in plan] == ["fgsm", "fgsm @ 0.2", "fgsm (2)", "fgsm @ 0.2 (2)"]
    assert [item.attack.threat.epsilon for item in plan] == [0.1, 0.2, 0.1, 0.2]
    # The radius of the evaluation comes first, smaller ones are after it.
    plan = make_plan(["fgsm"], 0.1, "linf", epsilons=(0.2, 0.05))
    assert [item.label for item in plan] == ["fgsm", "fgsm @ 0.05", "fgsm @ 0.2"]


def test_an_attack_that_does_not_exist_in_a_norm_is_not_run():
    plan = plan_of("full", epsilon=0.5, norm="l2")
    assert plan["rays-10000"].attack is None and "linf only, not in l2" in plan["rays-10000"].not_run
    assert plan["fgsm"].attack.threat.norm == "l2"


def test_adaptive_attacks_get_the_margin_and_need_a_hypersphere():
    planned = plan_of("he2020", margin=0.15)["adaptive-pgd-20"]
    assert planned.attack.margin == 0.15
    planned.check(victim(tiny_net("he")))
    assert planned.not_run is None


@pytest.mark.parametrize("head", ["linear", "ensemble"])
def test_adaptive_attacks_are_not_run_without_a_hypersphere(head):
    two = [tiny_net("he"), tiny_net("he")]
    net = models.ensemble_of(two) if head == "ensemble" else tiny_net(head)
    planned = plan_of("he2020", margin=0.15)["adaptive-pgd-20"]
    planned.check(victim(net))
    assert "needs a hypersphere head" in planned.not_run


def test_adaptive_attacks_of_a_paper_are_copied_at_no_cost(monkeypatch):
    specs = (AttackSpec("pgd-3"), AttackSpec("adaptive-pgd-3", hypersphere=True, equals="pgd-3", note="why"))
    monkeypatch.setitem(PROTOCOLS, "two", Protocol("two", "", specs))
    x, y = tiny_batch(32)
    kwargs = {"epsilon": 0.02, "checks": False}
    copied = athe_tf.evaluate(tiny_net("he"), x, y, protocol="two", **kwargs)["adaptive-pgd-3"]
    own = athe_tf.evaluate(tiny_net("he"), x, y, attacks=["adaptive-pgd-3"], **kwargs)["adaptive-pgd-3"]
    # Run or copied, every flag is the same: a margin changes no direction.
    np.testing.assert_array_equal(copied.robust, own.robust)
    assert 0 < own.robust.sum() < len(x) and own.queries > 0
    assert (copied.queries, copied.gradients, copied.seconds, copied.remarks) == (0, 0, 0.0, ["why"])
    assert copied.settings["margin"] == 0.2
    # On a linear head it is not run, and nothing is copied.
    outcome = athe_tf.evaluate(tiny_net("linear"), x, y, protocol="two", **kwargs)["adaptive-pgd-3"]
    assert outcome.robust is None and "needs a hypersphere head" in outcome.not_run


@pytest.mark.parametrize(("head", "margin"), [("he", 0.2), ("mhe", 0.1), ("fn", 0.0)])
def test_an_unknown_margin_is_that_of_the_paper_for_the_head(head, margin, monkeypatch):
    seen = {}

    def recorded(*args, **settings):
        seen.update(settings)
        raise InputError("enough")

    monkeypatch.setattr(evaluator, "make_plan", recorded)
    net = models.build("small_cnn", 4, head=head, input_shape=(8, 8, 1))
    for options, expected in ((EvaluationOptions(), margin), (EvaluationOptions(margin=0.3), 0.3)):
        with pytest.raises(InputError, match="enough"):
            athe_tf.evaluate(net, tiny_batch(4), protocol="he2020", options=options)
        assert seen["margin"] == expected


def test_another_scale_reaches_the_attacks_that_depend_on_it_and_have_none_of_their_own():
    plan = plan_of("he2020", logit_scale=5.0)
    assert plan["pgd-20 (scale 5)"].attack.logit_scale == 5.0 and "pgd-20" not in plan
    assert plan["pgd-20 (scale 1)"].attack.logit_scale == 1.0
    assert {"cw-linf-20", "deepfool-100", "feature", "fab-20"} <= set(plan), "no loss of theirs depends on it"
    with pytest.raises(InputError, match="logit_scale must be 'model' or a number larger than 0"):
        EvaluationOptions(logit_scale=0)


def test_a_typo_gets_the_nearest_name():
    with pytest.raises(InputError, match="Unknown protocol 'he2021'. Did you mean 'he2020'"):
        get_protocol("he2021")


def test_names_of_protocols_and_of_attacks_do_not_mix():
    assert not set(PROTOCOLS) & set(attacks.ATTACKS)


def test_transfer_has_a_row_for_each_source_and_attack():
    x, _ = tiny_batch(24)
    one, other = tiny_net("he", seed=2), tiny_net("linear", seed=3)
    y = np.asarray(one(x)).argmax(1).astype("int32")
    options = EvaluationOptions(substitutes={"other": other}, name="one")
    result = athe_tf.evaluate(one, (x, y), protocol="transfer", epsilon=0.1, checks=False, options=options)
    found = result.to_dict()["transfer"]
    assert found["targets"] == ["one", "other"]
    attacks_of = ("pgd-10", "pgd-20", "mim-20")
    assert found["sources"] == [f"{source}, {attack}" for attack in attacks_of for source in ("one", "other")]
    attack = attacks.get("mim-20", epsilon=0.1, step_size=0.1 * 0.003 / 0.031)
    expected = transfer_matrix([one, other], x, y, attack).accuracies
    np.testing.assert_allclose(found["accuracy"][4:], expected)
    assert "crafted on" in str(result)


def test_a_substitute_cannot_take_the_place_of_the_model():
    x, y = tiny_batch(4)
    net = tiny_net("he", seed=2)
    for name in (None, "one"):
        options = EvaluationOptions(substitutes={name or net.name: tiny_net("linear", seed=3)}, name=name)
        with pytest.raises(InputError, match="A substitute has the name of the model itself. Expected other"):
            athe_tf.evaluate(net, (x, y), protocol="transfer", epsilon=0.1, checks=False, options=options)


def test_the_corruptions_protocol_measures_the_images_and_says_that_nothing_was_attacked(monkeypatch):
    def two_cells(*args, **kwargs):
        return evaluate_corruptions(*args, corruptions=["brightness", "contrast"], severities=[1], **kwargs)

    monkeypatch.setattr(evaluator, "evaluate_corruptions", two_cells)
    x, y = tiny_batch(24)
    told = []
    result = athe_tf.evaluate(
        tiny_net("linear"), (x, y), protocol="corruptions", options=EvaluationOptions(progress=told.append)
    )
    found = result.to_dict()
    assert set(found["corruptions"]["accuracy"]) == {"brightness", "contrast"} and found["attacks"] == []
    assert "No attack was run" in found["verdict"] and told[-1].attack == "corruptions"
    assert "checks" not in found and "Common corruptions" in str(result)
