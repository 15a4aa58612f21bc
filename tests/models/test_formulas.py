"""Constants, defaults and boundaries of models: initial weights, slopes, cards, digests, victims."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import models
from athe_tf.models.blocks import Blocks, channels
from athe_tf.models.card import describe, head_name, read_card, write_card
from athe_tf.models.digest import keras_digest
from athe_tf.models.names import HEAD_MARGINS
from athe_tf.models.victim import Victim, in_range, victim_of
from athe_tf.utils.errors import InputError

SHAPE = (8, 8, 1)

# The first entries of the first kernel and of the head, with the seed 0: runs of two versions begin alike.
FIRST_WEIGHTS = {
    "small_cnn": ([0.252325, -0.026680, 0.066861], [-0.018947, -0.034293, 0.064077]),
    "wrn-10-1": ([0.014926, -0.058103, 0.074387], [-0.099000, 0.065007, -0.113365]),
}


@pytest.mark.parametrize("name", FIRST_WEIGHTS)
def test_initial_weights_are_the_same_in_every_version(name):
    net = models.build(name, 4, head="he", input_shape=SHAPE)
    for layer, expected in zip(("conv1", "head"), FIRST_WEIGHTS[name], strict=True):
        np.testing.assert_allclose(np.ravel(net.get_layer(layer).kernel)[:3], expected, atol=2e-6)


def test_every_layer_has_a_seed_of_its_own_and_neighboring_runs_share_none():
    runs = [Blocks(seed) for seed in (0, 1)]
    seeds = [blocks.uniform(0.1).seed for blocks in runs for _ in range(300)]
    assert len(set(seeds)) == 600


def test_the_defaults_of_build_are_those_of_the_paper():
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(models.build).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    assert defaults == {
        "head": "linear",
        "input_shape": (32, 32, 3),
        "scale": 15.0,
        "weight_norm": "differentiable",
        "mean": None,
        "std": None,
        "activation": "relu",
        "dropout": 0.0,
        "bn_momentum": 0.9,
        "seed": 0,
    }
    assert HEAD_MARGINS == {"he": 0.2, "mhe": 0.1}


def test_a_leaky_relu_has_the_slope_of_free_at():
    inputs = keras.Input((1,))
    net = keras.Model(inputs, Blocks(0, "leaky_relu").act(inputs, name="act"))
    np.testing.assert_allclose(net(np.array([[-2.0], [3.0]], "float32")), [[-0.2], [3.0]], rtol=1e-6)


def test_the_wide_resnet_of_deepmind_pads_the_far_side():
    blocks = Blocks(0)
    blocks.pad_far_side = True
    inputs = keras.Input((4, 4, 1))
    net = keras.Model(inputs, blocks.conv(inputs, 1, stride=2, name="conv"))
    kernel = np.arange(9.0).reshape(3, 3, 1, 1)
    net.get_layer("conv").kernel.assign(kernel)
    impulse = np.zeros((1, 4, 4, 1), "float32")
    impulse[0, 0, 0] = 1.0
    # The window of the first output begins at the first pixel.
    np.testing.assert_allclose(net(impulse)[0, :, :, 0], [[0.0, 0.0], [0.0, 0.0]])
    impulse[0, 1, 1] = 1.0
    np.testing.assert_allclose(net(impulse)[0, 0, 0, 0], kernel[0, 0, 0, 0] + kernel[1, 1, 0, 0])
    deepmind = models.build("dm_wrn-10-1", 3, input_shape=(16, 16, 3))
    assert deepmind.get_layer("group2_block1_conv1_pad").padding == ((0, 1), (0, 1))
    assert [deepmind.get_layer(f"group{g}_block1_conv1").strides[0] for g in (1, 2, 3)] == [1, 2, 2]


def test_widths_are_rounded_down():
    assert [channels(64, width) for width in (16, 8, 1)] == [64, 32, 4] and channels(24, 1) == 1


@pytest.mark.parametrize(
    "head, scale", [("linear", None), ("fn", 12.0), ("wn", 12.0), ("he", 12.0), ("mhe", 12.0)]
)
def test_a_card_says_head_scale_margin_and_normalization(head, scale, tmp_path):
    net = models.build("small_cnn", 3, head=head, scale=12.0, input_shape=SHAPE, mean=0.4, std=0.25)
    card = describe(net, margin=0.0)
    assert (card["head"], card["scale"], card["margin"], card["num_classes"]) == (head, scale, 0.0, 3)
    assert card["input_shape"] == list(SHAPE)
    np.testing.assert_allclose(card["normalization"]["mean"], [0.4], rtol=1e-6)
    np.testing.assert_allclose(card["normalization"]["std"], [0.25], rtol=1e-6)
    (tmp_path / "net.onnx").touch()
    write_card(tmp_path / "net.onnx", card)
    assert (tmp_path / "net.onnx.json").exists() and read_card(tmp_path / "net.onnx") == card
    assert head_name(keras.layers.Flatten()) == "unknown"


@pytest.mark.parametrize(
    "name, value", [("scale", 0.0), ("scale", -1), ("num_classes", 2.5), ("margin", True)]
)
def test_a_card_with_an_unusable_number_is_refused(name, value, tmp_path):
    write_card(tmp_path, {name: value})
    with pytest.raises(InputError, match=f"its `{name}` is .*, not a usable number"):
        read_card(tmp_path)


def test_a_digest_sees_weights_and_settings_and_neither_names_nor_compilation():
    def net(scale=15.0):
        return models.build("small_cnn", 3, head="he", scale=scale, input_shape=SHAPE)

    one, again = net(), net()
    assert keras_digest(one) == keras_digest(again) != keras_digest(net(scale=10.0))
    again.compile("sgd", loss="mse")
    assert keras_digest(one) == keras_digest(again)
    bias = again.get_layer("fc").bias
    bias.assign(np.nextafter(np.array(bias), np.float32(9), dtype="float32"))
    assert keras_digest(one) != keras_digest(again)


def test_a_victim_of_another_range_rescales_and_says_so_in_its_digest():
    plain = Victim(lambda x: x[:, 0, 0, :], num_classes=3, digest=lambda: "abc")
    moved = in_range(plain, -1, 3)
    np.testing.assert_allclose(moved.logits(np.full([1, 1, 1, 3], 0.25, "float32")), [[0.0, 0.0, 0.0]])
    assert moved.digest() == "abc, pixels from -1 to 3"


def test_the_digest_of_a_judge_names_its_gradient_source():
    source = Victim(lambda x: x, digest=lambda: "parent")
    assert Victim(lambda x: x, digest=lambda: "file", source=source).digest() == "file, gradients of parent"
    assert Victim(lambda x: x, digest=lambda: "file", source=Victim(lambda x: x)).digest() is None


def test_a_victim_is_the_model_in_inference_mode_with_the_scale_of_its_head():
    inputs = keras.Input((2,))
    h = athe_tf.BatchNorm()(keras.layers.Dropout(0.5)(inputs))
    net = keras.Model(inputs, athe_tf.CosineDense(3, scale=7.0)(h))
    x = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
    found = victim_of(net)
    assert found.scale == 7.0 and found.num_classes == 3
    np.testing.assert_array_equal(found.logits(x), net(x, training=False))
    np.testing.assert_array_equal(net.layers[2].moving_mean, np.zeros(2))
    assert found.logits(tf.constant(x, tf.float64)).dtype == tf.float64
    assert victim_of(net) is found
