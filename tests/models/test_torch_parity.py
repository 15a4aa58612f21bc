"""Our wide ResNet and batch normalisation against PyTorch's, with the same weights."""

import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from athe_tf import models

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
from torch_twins import copy_weights, torch_wrn  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


def twins(head, depth=10, widen=1):
    net = models.build(f"wrn-{depth}-{widen}", 10, head=head, mean=MEAN, std=STD)
    rng = np.random.default_rng(0)
    for w in net.weights:
        if any(part in w.path for part in ("gamma", "moving_variance")):
            w.assign(rng.uniform(0.5, 1.5, w.shape))
        elif any(part in w.path for part in ("beta", "moving_mean")) and "normalization" not in w.path:
            w.assign(rng.normal(size=w.shape) * 0.1)
    twin = torch_wrn(depth, widen, 10, head=head, mean=MEAN, std=STD)
    copy_weights(net, twin)
    return net, twin


def batch():
    rng = np.random.default_rng(1)
    return rng.uniform(size=(8, 32, 32, 3)).astype("float32"), rng.integers(10, size=8)


def logits_and_input_gradient(net, x, y, training):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = net(x, training=training)
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    return logits.numpy(), tape.gradient(loss, x).numpy()


def torch_logits_and_input_gradient(twin, x, y, training):
    x = torch.from_numpy(x.transpose(0, 3, 1, 2).copy()).requires_grad_()
    logits = twin.train(training)(x)
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(y), reduction="sum").backward()
    return logits.detach().numpy(), x.grad.numpy().transpose(0, 2, 3, 1)


@pytest.mark.parametrize("head", ["linear", "he", "mhe"])
@pytest.mark.parametrize("training", [False, True])
def test_logits_and_input_gradients_are_equal(head, training):
    net, twin = twins(head)
    x, y = batch()
    logits, gradient = logits_and_input_gradient(net, x, y, training)
    expected, expected_gradient = torch_logits_and_input_gradient(twin, x, y, training)
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-3 * np.abs(expected_gradient).max())


def test_running_statistics_are_equal_after_two_training_passes():
    net, twin = twins("linear", depth=16)
    x, _ = batch()
    for images in (x, x[:5] ** 2):
        net(images, training=True)
        twin.train()(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()))
    norms = {n.replace(".", "_"): m for n, m in twin.named_modules() if isinstance(m, torch.nn.BatchNorm2d)}
    assert len(norms) == 13
    for name, module in norms.items():
        layer = net.get_layer(name)
        np.testing.assert_allclose(layer.moving_mean, module.running_mean, atol=1e-4)
        np.testing.assert_allclose(layer.moving_variance, module.running_var, rtol=1e-4)


def test_the_twin_has_as_many_parameters():
    net, twin = twins("linear", depth=16, widen=2)
    ours = sum(int(np.prod(w.shape)) for w in net.trainable_weights)
    assert ours == sum(p.numel() for p in twin.parameters())
