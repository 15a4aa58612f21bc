"""The denoising block equals its formula, and a new one changes nothing."""

import keras
import numpy as np

from athe_tf import models
from athe_tf.models.blocks import Blocks
from athe_tf.models.networks import denoising_block

SHAPE = (3, 2, 4)


def block_and_weights():
    inputs = keras.Input(SHAPE)
    model = keras.Model(inputs, denoising_block(inputs, Blocks(seed=0), name="d"))
    rng = np.random.default_rng(0)
    for weight in model.weights:
        low = 0.5 if "variance" in weight.path else -1.0
        weight.assign(rng.uniform(low, 1.0, weight.shape))
    return model, {weight.path: np.array(weight, "float64") for weight in model.weights}


def test_it_adds_a_softmax_mean_over_all_positions():
    model, w = block_and_weights()
    x = np.random.default_rng(1).normal(size=(2, *SHAPE))
    flat = x.reshape(2, 6, 4)
    theta, phi = (flat @ w[f"d_{part}/kernel"].reshape(4, 2) for part in ("theta", "phi"))
    scores = np.einsum("npc,nqc->npq", theta, phi) / np.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    mean = weights @ flat @ w["d_conv/kernel"].reshape(4, 4)
    mean = (mean - w["d_bn/moving_mean"]) / np.sqrt(w["d_bn/moving_variance"] + 1e-5)
    expected = flat + mean * w["d_bn/gamma"] + w["d_bn/beta"]
    np.testing.assert_allclose(model(x.astype("float32")), expected.reshape(x.shape), atol=1e-5)


def test_a_new_block_changes_nothing():
    plain, denoising = (
        models.build(name, 10, input_shape=(32, 32, 3)) for name in ("resnet50", "resnet50_denoise")
    )
    layers = [layer.name for layer in denoising.layers if layer.name.endswith("_denoise_add")]
    assert layers == [f"group{group}_denoise_add" for group in (1, 2, 3, 4)]
    by_name = {weight.path: weight for weight in plain.weights}
    for weight in denoising.weights:
        if weight.path in by_name:
            by_name[weight.path].assign(weight)
    x = np.random.default_rng(2).uniform(size=(2, 32, 32, 3)).astype("float32")
    np.testing.assert_allclose(denoising(x), plain(x), atol=1e-6)
