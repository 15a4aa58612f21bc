"""`load_torch_weights`: every tensor finds its place, or nothing changes and the message says why."""

import json

import numpy as np
import pytest

from athe_tf import models
from athe_tf.utils.errors import InputError
from tests.models.torch_networks import FILE, GRAY, MEAN, STD, images, seeded_state


@pytest.fixture
def lenet():
    return models.build("lenet-4", 10, input_shape=GRAY)


def state_of(key):
    return seeded_state(json.loads(FILE.read_text())[key]["tensors"])


@pytest.mark.parametrize("prefix", ["module.", "model.", "module.model.", "1."])
def test_the_prefix_of_a_wrapper_is_no_matter(prefix, lenet):
    state = state_of("PAS LeNet")
    models.load_torch_weights(lenet, state)
    expected = lenet.get_weights()
    other = models.build("lenet-4", 10, input_shape=GRAY)
    models.load_torch_weights(other, {prefix + name: value for name, value in state.items()})
    for one, another in zip(expected, other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s.pop("conv2.weight"),
            "no weights for the layers conv2 of the model.*Build the model with",
        ),
        (lambda s: s.pop("conv2.bias"), "has no 'conv2.bias'"),
        (lambda s: s.update({"fc3.weight": np.ones(2)}), "without a place in 'lenet_4': fc3.weight.*Build"),
        (
            lambda s: s.update({"fc2.weight": np.ones((9, 256))}),
            r"Expected: \(256, 10\).*Received: \(256, 9\)",
        ),
        (
            lambda s: s.update(mu=np.full(1, 0.1), sigma=np.ones(1)),
            r"another way.*mean=\[0.1\].*mean=\[0.0\]",
        ),
    ],
)
def test_a_state_dict_of_another_network_is_refused_and_changes_nothing(change, message, lenet):
    before, state = lenet.get_weights(), state_of("PAS LeNet")
    change(state)
    with pytest.raises(InputError, match=message):
        models.load_torch_weights(lenet, state)
    for one, other in zip(before, lenet.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_bias_of_a_linear_head_has_no_place_in_a_hypersphere():
    net = models.build("lenet-4", 10, head="he", input_shape=GRAY)
    with pytest.raises(InputError, match="without a place in 'lenet_4': fc2.bias.*head of the checkpoint"):
        models.load_torch_weights(net, state_of("PAS LeNet"))


def test_the_weights_of_a_projected_head_have_unit_norm():
    kind = {"head": "he", "mean": MEAN, "std": STD}
    nets = {
        form: models.build("wrn-10-2", 10, weight_norm=form, **kind) for form in ("differentiable", "project")
    }
    for net in nets.values():
        models.load_torch_weights(net, state_of("AT_HE"))
    norms = np.linalg.norm(nets["project"].get_layer("head").kernel, axis=0)
    np.testing.assert_allclose(norms, 1, atol=1e-6)
    one, other = (net(images((32, 32, 3))) for net in nets.values())
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_half_precision_checkpoints_are_read(lenet):
    models.load_torch_weights(lenet, {n: v.astype("float16") for n, v in state_of("PAS LeNet").items()})
    assert lenet.weights[0].dtype == "float32"
