"""`athe_tf.models.build`: names, shapes, parameter counts, initialization, saving."""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import models
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models import names
from athe_tf.utils.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]

# A table of every family at its narrowest: name, input shape, size of the penultimate features.
SMALL = [
    ("small_cnn", (8, 8, 1), 128),
    ("small_cnn", (32, 32, 3), 128),
    ("lenet-2", (28, 28, 1), 128),
    ("wrn-10-1", (16, 16, 3), 64),
    ("resnet18-1", (16, 16, 3), 32),
    ("preact_resnet18-1", (16, 16, 3), 32),
    ("preact_resnet18_fast-1", (16, 16, 3), 32),
    ("vgg16-1", (32, 32, 3), 32),
]


def pixels(shape, count=4, seed=0):
    return np.random.default_rng(seed).uniform(size=(count, *shape)).astype("float32")


def parameters(name, num_classes=10, **kwargs):
    net = models.build(name, num_classes, **kwargs)
    return sum(int(np.prod(w.shape)) for w in net.trainable_weights)


@pytest.mark.parametrize(("name", "shape", "features"), SMALL)
def test_a_model_maps_images_to_logits_and_saves_exactly(name, shape, features, tmp_path):
    net = models.build(name, 5, head="he", input_shape=shape, mean=0.4, std=0.2)
    x = pixels(shape)
    logits = net(x, training=True), net(x, training=False)
    assert logits[1].shape == (4, 5) and logits[1].dtype == tf.float32
    assert np.isfinite(logits).all() and np.ptp(logits[1], axis=0).max() > 0
    assert net.layers[-1].name == "head"
    assert net.layers[-1].input.shape == (None, features)
    net.save(tmp_path / "net.keras")
    again = keras.models.load_model(tmp_path / "net.keras")
    np.testing.assert_array_equal(again(x, training=False), logits[1])


def test_wide_resnet_has_the_published_number_of_parameters():
    def formula(depth, widen, classes):
        blocks, last, total = (depth - 4) // 6, 16, 3 * 3 * 3 * 16
        for width in (16 * widen, 32 * widen, 64 * widen):
            for _ in range(blocks):
                total += 9 * last * width + 9 * width * width + 2 * last + 2 * width
                total += last * width if last != width else 0
                last = width
        return total + 2 * last + last * classes + classes

    assert formula(34, 10, 10) == 46_160_474  # the released code, without its unused sub_block1
    for depth, widen in ((10, 1), (16, 2)):
        assert parameters(f"wrn-{depth}-{widen}") == formula(depth, widen, 10)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18", 11_173_962),  # kuangliu/pytorch-cifar
        ("preact_resnet18_fast", 11_171_146),  # the same repository
        ("preact_resnet18", 11_172_170),  # the last BN of Rice et al. adds 1,024
        ("vgg16", 14_724_042),  # the same repository's 14,728,266 without 4,224 biases in front of BN
        ("lenet", 3_274_634),  # Madry et al.: 832 + 51,264 + 3136 * 1024 + 1024 + 10,250, on 28x28x1
    ],
)
def test_standard_networks_have_the_published_number_of_parameters(name, expected):
    assert parameters(name, input_shape=(28, 28, 1) if name == "lenet" else (32, 32, 3)) == expected


def test_bottleneck_resnets_have_the_published_number_of_parameters():
    def formula(depths, classes, widen=1):
        total, last = 7 * 7 * 3 * 64 + 2 * 64, 64
        for group, count in enumerate(depths):
            inside, outside = 64 * 2**group * widen, 4 * 64 * 2**group
            for _ in range(count):
                total += last * inside + 9 * inside * inside + inside * outside + 4 * inside + 2 * outside
                total += last * outside + 2 * outside if last != outside else 0
                last = outside
        return total + last * classes + classes

    # torchvision's
    assert formula((3, 4, 6, 3), 1000) == 25_557_032 and formula((3, 8, 36, 3), 1000) == 60_192_808
    assert formula((3, 4, 6, 3), 1000, 2) == 68_883_240 and formula((3, 4, 23, 3), 1000, 2) == 126_886_696
    assert parameters("resnet50", 10) == formula((3, 4, 6, 3), 10)
    assert parameters("wide_resnet50_2", 10) == formula((3, 4, 6, 3), 10, 2)
    assert names.parse_name("resnet152") == ("bottleneck", {"depth": 152})
    assert names.parse_name("wide_resnet101_2") == ("bottleneck", {"depth": 101, "widen": 2})


def test_width_is_counted_in_sixteenths():
    filters = [w.shape[-1] for w in models.build("resnet18-8", 10).weights if w.path.endswith("conv1/kernel")]
    assert filters == [32, 32, 32, 64, 64, 128, 128, 256, 256]


def test_the_head_decides_what_is_normalized():
    heads = {head: models.build("small_cnn", 3, head=head, input_shape=(8, 8, 1)) for head in models.HEADS}
    assert isinstance(heads["linear"].get_layer("head"), keras.layers.Dense)
    chosen = {}
    for name in ("fn", "wn", "he", "mhe"):
        head = heads[name].get_layer("head")
        assert isinstance(head, CosineDense)
        chosen[name] = (head.normalize_features, head.normalize_weights, head.angular)
    assert chosen == {
        "fn": (True, False, False),
        "wn": (False, True, False),
        "he": (True, True, False),
        "mhe": (True, True, True),
    }


def test_normalization_lives_in_the_model():
    mean, std = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
    plain = models.build("small_cnn", 3, seed=1)
    net = models.build("small_cnn", 3, seed=1, mean=mean, std=std)
    x = pixels((32, 32, 3))
    normalized = ((x - np.array(mean)) / np.array(std)).astype("float32")
    np.testing.assert_allclose(net(x), plain(normalized), atol=1e-5)


def test_seed_decides_all_initial_weights():
    def weights(seed):
        return models.build("wrn-10-1", 4, head="he", seed=seed).trainable_weights

    first, again, other = weights(3), weights(3), weights(4)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert "gamma" in a.path or "beta" in a.path or not np.array_equal(a, c)
    kernels = [np.array(w).ravel()[:50] for w in first if w.shape == (3, 3, 16, 16)]
    assert len(kernels) == 2 and not np.array_equal(*kernels)


def test_initial_weights_have_the_distributions_of_the_references():
    wide = np.array(models.build("wrn-10-4", 4).get_layer("group3_block1_conv2").kernel)
    # He over outgoing connections; 590,000 samples determine a deviation to about 0.1%.
    np.testing.assert_allclose(wide.std(), np.sqrt(2 / (9 * 256)), rtol=0.01)
    assert np.abs(wide).max() > 4 * wide.std(), "the normal distribution must not be truncated"
    net = models.build("resnet18-4", 1000)
    uniform = np.array(net.get_layer("group2_block2_conv2").kernel)
    assert 0.99 < np.abs(uniform).max() * np.sqrt(9 * 32) <= 1
    for w in net.get_layer("head").weights:
        assert 0.98 < np.abs(w).max() * np.sqrt(128) <= 1


def test_strided_convolutions_pad_both_sides():
    # A stride of 2 over 8 pixels with one pixel of padding starts at -1: pixel 7 is seen, -1 is zero.
    net = models.build("small_cnn", 2, input_shape=(8, 8, 1))
    conv = keras.Model(net.get_layer("bn1_act").output, net.get_layer("conv2").output)
    impulse = np.zeros((1, 8, 8, 16), "float32")
    impulse[0, 0, 0] = 1
    kernel = np.array(net.get_layer("conv2").kernel)
    np.testing.assert_allclose(conv(impulse)[0, 0, 0], kernel[1, 1].sum(0), atol=1e-5)


@pytest.mark.parametrize("activation", models.ACTIVATIONS)
def test_activation_reaches_every_layer(activation):
    net = models.build("small_cnn", 2, input_shape=(8, 8, 1), activation=activation)
    layer = {"leaky_relu": keras.layers.LeakyReLU}.get(activation, keras.layers.Activation)
    assert sum(isinstance(each, layer) for each in net.layers) == 4


def test_dropout_sits_inside_the_blocks_of_a_wide_resnet():
    net = models.build("wrn-10-1", 2, dropout=0.3)
    assert [layer.rate for layer in net.layers if isinstance(layer, keras.layers.Dropout)] == [0.3] * 3


def test_logits_are_float32_under_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        for head in ("linear", "he"):
            net = models.build("wrn-10-1", 2, head=head, mean=0.5, std=0.25)
            assert net(pixels((32, 32, 3), count=1)).dtype == tf.float32
            assert net.get_layer("conv1").compute_dtype == "bfloat16"
            assert net.get_layer("normalization").compute_dtype == "float32"
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrm-34-10", "Unknown model 'wrm-34-10'. Did you mean 'wrn-34-10'"),
        ("resnet-18", "Did you mean 'resnet18'"),
        ("wide_resnet50_4", "Did you mean 'wide_resnet50_2'"),
        ("wrn", "Unknown model 'wrn'"),
        ("small_cnn-8", "Did you mean 'small_cnn'"),
        ("wrn-32-10", "6n . 4 with n >= 1. Received: 'wrn-32-10'. Use 'wrn-28-10' or 'wrn-34-10'"),
        ("wrn-4-1", "Use 'wrn-10-1'."),
        ("wrn-7-1", "Use 'wrn-10-1'."),
        ("wrn-10-0", "at least 1. Received: 'wrn-10-0'. Use 'wrn-10-1'"),
        ("vgg16-0", "width .* at least 1. Received: 'vgg16-0'"),
    ],
)
def test_a_wrong_name_is_answered_with_a_right_one(name, message):
    with pytest.raises(InputError, match=message):
        names.check_name(name)


def test_every_listed_name_is_valid():
    for name in models.NAMES:
        names.check_name(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head": "hee"}, "Unknown head 'hee'. Did you mean 'he'"),
        ({"activation": "rulu"}, "Unknown activation 'rulu'. Did you mean 'relu'"),
        ({"num_classes": 1}, "at least 2 classes"),
        ({"mean": 0.5}, "must be given together"),
        ({"mean": (0.5, 0.5), "std": 0.2}, "one for each of the 3 channels"),
        ({"mean": 0.5, "std": 0.0}, "larger than 0"),
        ({"dropout": 1.0}, r"lie in \[0, 1\)"),
        ({"name": "resnet18", "dropout": 0.1}, "has no dropout"),
        ({"name": "vgg16", "input_shape": (28, 28, 1)}, "at least 32x32 pixels. Received: 28x28"),
        ({"input_shape": (28, 28)}, r"\(height, width, channels\)"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        models.build(**({"name": "small_cnn", "num_classes": 3} | arguments))


def test_checking_a_name_does_not_start_tensorflow():
    program = (
        "import sys, athe_tf.models.names as m; m.check_name('wrn-34-10'); m.check_head('he'); "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=ROOT)


OWN_MODEL = """
import keras

def build(num_classes, input_shape):
    dense = keras.layers.Dense(num_classes)
    return keras.Sequential([keras.Input(input_shape), keras.layers.Flatten(), dense])

def wrong(num_classes, input_shape):
    return keras.Sequential([keras.Input(input_shape), keras.layers.Flatten()])
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "athe_tf_test_models.py").write_text(OWN_MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "athe_tf_test_models"


def test_a_function_of_the_users_own_builds_a_model(own_module):
    net = models.build(f"{own_module}:build", 4, input_shape=(8, 8, 1))
    assert net.output_shape == (None, 4) and net.input_shape == (None, 8, 8, 1)


def test_a_function_of_the_users_own_has_its_own_head(own_module):
    with pytest.raises(InputError, match="builds its own head.*head='he'.*Leave them at their defaults"):
        models.build(f"{own_module}:build", 4, head="he", input_shape=(8, 8, 1))
    with pytest.raises(InputError, match="must return a `keras.Model` with 4 logits"):
        models.build(f"{own_module}:wrong", 4, input_shape=(8, 8, 1))


def test_the_name_of_a_function_is_checked_without_importing_it():
    names.check_name("no_such_module:build")
    with pytest.raises(InputError, match="Cannot import the model 'no_such_module:build'"):
        models.build("no_such_module:build", 4)
