"""What an evaluation is said to cost, beside what it costs."""

import importlib

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.evaluation.options import CommonOptions, EvaluationOptions
from athe_tf.evaluation.plan import plan_evaluation
from athe_tf.programs.accelerators import DEVICES, operations
from athe_tf.programs.cost_estimate import describe_attacks
from tests.small_runs import tiny_batch, tiny_net

ATTACKS = ("pgd-3", "square-20", "adaptive-pgd-2")


@pytest.fixture(scope="module")
def case():
    net, (x, _) = tiny_net("linear", seed=2), tiny_batch(24)
    return net, x, np.asarray(net(x)).argmax(1)


def plan(case, epsilon):
    net, x, y = case
    given = {
        name: getattr(CommonOptions, name)
        for name in ("norm", "max_examples", "batch_size", "seed", "checks")
    }
    given |= {"protocol": None, "attacks": ATTACKS, "epsilon": epsilon}
    return plan_evaluation(athe_tf.victim(net), (x, y), EvaluationOptions(), **given)


@pytest.mark.parametrize("epsilon", [1e-4, 0.05])
def test_the_passes_of_an_evaluation_lie_within_the_bounds(case, epsilon):
    net, x, y = case
    stay, costs = plan(case, epsilon)
    result = athe_tf.evaluate(net, x, y, attacks=ATTACKS[:2], epsilon=epsilon, checks=False)
    for (label, not_run, cost, memory), attack in zip(costs, result.attacks, strict=False):
        fewest, usual, most = cost[:, :2].sum(axis=1)
        # The evaluation counts the clean pass of every image too.
        passes = attack.queries + attack.gradients - len(x)
        assert label == attack.name and not_run is None and 0.1 < memory < 100
        assert fewest <= passes <= most and fewest <= usual <= most
    assert 0 <= stay <= 1 and (epsilon > 1e-3 or stay == 1)


def test_an_image_that_stays_takes_every_pass(case):
    """With a tiny epsilon: three steps there and back and a test; 21 candidates of Square."""
    stay, costs = plan(case, 1e-4)
    assert stay == 1 and costs[0][2][1:, 0].tolist() == [24 * 4.0] * 2
    assert costs[0][2][2, 1] == 24 * 3 and costs[1][2][2, :2].tolist() == [24 * 21, 0]


def test_the_table_names_what_is_not_run_and_sums_the_rest():
    one = np.array([[1.0, 0, 2], [3, 1, 4], [5, 5, 6]])
    costs = [("a", None, one, 1.0), ("b", None, one, 2.0), ("c", "it cannot.", one, 3.0)]
    text = describe_attacks(0.5, costs)
    assert [line.split() for line in text.splitlines()[1:4]] == [
        ["a", "4", "1", "10", "4.0", "s", "2.0", "s", "6.0", "s", "1.0", "GiB"],
        ["b", "4", "1", "10", "4.0", "s", "2.0", "s", "6.0", "s", "2.0", "GiB"],
        ["all", "attacks", "8", "2", "20", "8.0", "s", "4.0", "s", "12.0", "s", "2.0", "GiB"],
    ]
    assert "c is not run: it cannot." in text and "50% withstand" in text
    # 4 passes of 39 TFLOP at a quarter of 156 TFLOP/s.
    elsewhere = describe_attacks(0.5, costs, DEVICES["a100"], 39e12).splitlines()
    assert elsewhere[1].split()[4:10] == ["4.0", "s", "1.0", "s", "10.0", "s"]
    assert "Time on a100, computed, not measured: 3.9e+04 GFLOP per pass" in elsewhere[-2]
    assert "an assumed share of 25% of the peak of 156 TFLOP/s" in elsewhere[-2]


def test_the_operations_of_a_pass_are_counted():
    """By hand: 3 x 3 from 2 to 4 channels on 5 x 5 pixels, and a layer from 100 to 7 numbers."""
    net = keras.Sequential([
        keras.Input((5, 5, 2)), keras.layers.Conv2D(4, 3, padding="same", use_bias=False),
        keras.layers.Flatten(), keras.layers.Dense(7, use_bias=False),
    ])  # fmt: skip
    by_hand = 2 * 25 * 9 * 2 * 4 + 2 * 100 * 7
    assert operations(net, (5, 5, 2)) == by_hand
    assert operations(athe_tf.victim(net).logits, (5, 5, 2)) == by_hand


@pytest.mark.parametrize("program", ["train", "evaluate"])
@pytest.mark.parametrize(
    "given, message",
    [
        (["--plan", "--device=a10"], "Unknown device 'a10'. Did you mean 'a100'"),
        (["--device=a100"], "Add --plan"),
    ],
)
def test_a_device_is_for_a_plan(program, given, message, monkeypatch, capsys):
    model = ["--model=zoo:cifar10-fast-at-he-wrn10-1"] if program == "evaluate" else []
    monkeypatch.setattr("sys.argv", [f"bin/{program}", *model, *given])
    assert importlib.import_module(f"athe_tf.programs.{program}").PROGRAM.exit_code() == 2
    assert message in capsys.readouterr().err
