"""Our networks against PyTorch's, with the same weights: RobustBench, torchvision, and stored logits."""

import importlib.util
import json

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import models
from tests.models import torch_networks
from tests.models.torch_networks import CASES, FILE, MEAN, STD, STORED, images, seeded_state

# Float32 sums in another order. For logits of order one; those of the deepest networks spread over hundreds.
TOLERANCE = 1e-4


def check_logits(logits, expected):
    tolerance = TOLERANCE * max(1.0, np.std(expected))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance)


def ours(case, state, scale=1.0):
    normalization = {"mean": MEAN, "std": STD} if case.normalized else {}
    kind = {"head": case.head, "input_shape": case.shape, "activation": case.activation}
    net = models.build(case.name, 10, scale=scale, **kind, **normalization)
    models.load_torch_weights(net, state)
    return net


@pytest.mark.parametrize("key", STORED)
def test_logits_are_those_that_pytorch_computed_on_the_same_weights(key):
    stored = json.loads(FILE.read_text())[key]
    net = ours(CASES[key], seeded_state(stored["tensors"]))
    logits = net(images(CASES[key].shape), training=False)
    assert np.std(stored["logits"]) > 0.05, "else the comparison says nothing"
    check_logits(logits, stored["logits"])


def test_the_forms_of_the_preactivation_resnet_differ():
    # Wide apart in value, and equal in everything that can be counted but the last normalization.
    stored = json.loads(FILE.read_text())
    fast, other = stored["FastAT"]["tensors"], stored["N-FGSM"]["tensors"]
    assert set(other) - set(fast) == {
        f"bn.{n}" for n in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }
    assert stored["N-FGSM"]["tensors"] == stored["Rice et al."]["tensors"]
    rice, nfgsm = (np.array(stored[key]["logits"]) for key in ("Rice et al.", "N-FGSM"))
    assert np.abs(rice - nfgsm).max() > 0.1


# -- where PyTorch is installed -----------------------------------------------------------------------------


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    for name in ("torchvision", "robustbench"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    module.set_num_threads(1)
    return module


@pytest.mark.parametrize("key", CASES)
def test_a_saved_checkpoint_has_the_logits_of_the_reference(key, torch, tmp_path):
    case = CASES[key]
    expected, state = torch_networks.reference_logits(case)
    torch.save(
        {name: torch.from_numpy(np.array(value)) for name, value in state.items()}, tmp_path / "net.pt"
    )
    normalization = {"mean": MEAN, "std": STD} if case.normalized else {}
    net = models.from_torch(tmp_path / "net.pt", case.name, image_size=case.shape[0], **normalization)
    check_logits(net(images(case.shape), training=False), expected)
    if key in STORED:
        check_logits(json.loads(FILE.read_text())[key]["logits"], expected)


PUBLISHED = {
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "wide_resnet50_2": 68_883_240,
    "wide_resnet101_2": 126_886_696,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_imagenet_networks_have_the_parameters_of_torchvision(name, torch):
    with torch.device("meta"):
        reference = getattr(torch_networks.import_torchvision().models, name)()
    assert sum(p.numel() for p in reference.parameters()) == PUBLISHED[name]


def head_of(kind, cosines, torch):
    limit = 1 - 1e-6
    return -15 * torch.acos(cosines.clamp(-limit, limit)) if kind == "mhe" else 15 * cosines


@pytest.mark.parametrize("head", ["linear", "he", "mhe"])
@pytest.mark.parametrize("training", [False, True])
def test_logits_and_input_gradients_are_equal_in_both_modes(head, training, torch):
    case = CASES["TRADES" if head == "linear" else "AT_HE"]
    reference, state = torch_networks.reference(case)
    normalization = {"mean": MEAN, "std": STD} if case.normalized else {}
    net = models.build(case.name, 10, head=head, scale=15.0, **normalization)
    models.load_torch_weights(net, state)
    x, y = images((32, 32, 3), count=8), np.arange(8)

    pixels = torch.from_numpy(x.transpose(0, 3, 1, 2).copy()).requires_grad_()
    expected = reference.train(training)(pixels)
    expected = expected if head == "linear" else head_of(head, expected, torch)
    torch.nn.functional.cross_entropy(expected, torch.from_numpy(y), reduction="sum").backward()
    gradient = pixels.grad.numpy().transpose(0, 2, 3, 1)

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = net(x, training=training)
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    np.testing.assert_allclose(logits, expected.detach().numpy(), atol=5 * TOLERANCE)
    # As vectors: rounding may decide on which side of its kink a ReLU lies, and so change a few pixels.
    difference = np.linalg.norm(tape.gradient(loss, x) - gradient)
    assert difference < 0.01 * np.linalg.norm(gradient)


def test_running_statistics_are_equal_after_two_training_passes(torch):
    case = CASES["TRADES"]
    reference, state = torch_networks.reference(case)
    net, again = ours(case, state), ours(case, state)
    for batch in (images(case.shape, 8), images(case.shape, 5) ** 2):
        net(batch, training=True)
        reference.train()(torch.from_numpy(batch.transpose(0, 3, 1, 2).copy()))
    models.load_torch_weights(again, {name: value.numpy() for name, value in reference.state_dict().items()})
    for one, other in zip(net.weights, again.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=one.path)
