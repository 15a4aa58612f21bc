"""Square and pyautoattack's on one network: ours must find at least what it finds."""

import numpy as np
import pytest

from athe_tf import attacks, data

torch = pytest.importorskip("torch")
torch_case = pytest.importorskip("tests.torch_case")
IMAGES = 300
QUERIES = 300
# Robust accuracy between 20 and 80%, where attacks differ.
EPSILON = {"linf": 0.17, "l2": 1.0, "l1": 3.0}
# Another seed moves the robust accuracy by about a point, so the means of some seeds are compared.
SEEDS = range(4)
TOLERANCE = 0.005


@pytest.fixture(scope="module")
def digits():
    return data.load("digits")


@pytest.fixture(scope="module")
def images(digits):
    x, y = digits.test.arrays()
    return x[:IMAGES], y[:IMAGES]


@pytest.fixture(scope="module")
def net(digits):
    return torch_case.robust_network(digits, convolutions=1, epochs=6)


def reference_accuracy(net, images, norm, seed):
    """Robust accuracy under pyautoattack's Square, as its AutoAttack runs it."""
    peer = pytest.importorskip("pyautoattack.square")
    twin, x, y = torch_case.twin_and_tensors(net, images)
    with torch.no_grad():
        x_adv = peer.SquareAttack(
            twin,
            norm=norm.capitalize(),
            n_queries=QUERIES,
            eps=EPSILON[norm],
            p_init=0.8,
            seed=seed,
            device="cpu",
            resc_schedule=False,
        ).perturb(x, y)
        return float((twin(x_adv).argmax(1) == y).float().mean())


def mean_accuracy(net, images, norm, **kwargs):
    attack = attacks.get(f"square-{QUERIES}", epsilon=EPSILON[norm], norm=norm, **kwargs)
    runs = [attack.run(net, *images, batch_size=IMAGES, seed=seed) for seed in SEEDS]
    return 1 - np.mean([run.success for run in runs])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_never_weaker_than_the_reference(net, images, norm):
    accuracy = mean_accuracy(net, images, norm)
    expected = np.mean([reference_accuracy(net, images, norm, seed) for seed in SEEDS])
    print(f"square {norm}: ours {accuracy:.4f}, pyautoattack {expected:.4f}")
    assert 0.1 < expected < 0.9
    assert accuracy <= expected + TOLERANCE


def test_with_shared_windows_it_is_the_reference(net, images):
    accuracy = mean_accuracy(net, images, "linf", shared_window=True)
    expected = np.mean([reference_accuracy(net, images, "linf", seed) for seed in SEEDS])
    print(f"square linf, shared windows: ours {accuracy:.4f}, pyautoattack {expected:.4f}")
    # Up to chance: the windows are the same in kind, not in fact.
    assert abs(accuracy - expected) <= 0.03
