"""Training that begins with the weights of another run."""

import dataclasses
import shutil

import numpy as np
import pytest

import athe_tf
from athe_tf.programs.build import make_net
from athe_tf.programs.config import TrainConfig
from athe_tf.programs.run import train
from athe_tf.programs.workdir import Workdir
from athe_tf.utils.errors import InputError
from tests.small_runs import (
    after_step,
    assert_equal_weights,
    get_weights,
    small_cnn_of_one_layer,
    tiny_net,
    tiny_splits,
)

CONFIG = TrainConfig.from_flags(
    framework="standard", head="he", epochs=1, batch_size=16, lr_schedule="constant", ema=0.9
)  # fmt: skip


def trained(folder, **changes):
    config = dataclasses.replace(CONFIG, workdir=str(folder), **changes)
    with small_cnn_of_one_layer():
        return train(config, tiny_splits(), Workdir(folder), write=lambda *a, **k: None)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a run to begin with."""
    folder = tmp_path_factory.mktemp("first") / "run"
    trained(folder)
    return folder


def test_training_begins_with_the_best_model_of_a_run(first, tmp_path):
    # So small a rate that the weights stay where they began; batch normalization moves on.
    trainer = trained(tmp_path / "run", initial_model=str(first), learning_rate=1e-9, seed=5)
    best = athe_tf.load_model(first / "best.keras")
    for net in (trainer.net, trainer.averaged):
        for one, other in zip(net.trainable_variables, best.trainable_variables, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_what_resumes_does_not_ask_for_the_model_again(first, tmp_path):
    model = tmp_path / "model.keras"
    shutil.copy(first / "best.keras", model)
    options = {"initial_model": str(model), "backup_minutes": 0.0}
    straight = trained(tmp_path / "straight", **options)

    def stop():
        model.unlink()
        raise InterruptedError

    with pytest.raises(InterruptedError), after_step(2, stop):
        trained(tmp_path / "run", **options)
    assert_equal_weights(get_weights(straight.net), get_weights(trained(tmp_path / "run", **options).net))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": "linear"}, "its head is he, expected linear. Use one with the same --model, --head"),
        ({"scale": 10.0}, "its scale is 15.0, expected 10.0"),
        ({"activation": "silu"}, "its activation is relu, expected silu"),
        ({"model": "lenet-1"}, r"its weight 'conv1/kernel' is \(3, 3, 1, 4\), expected \(5, 5, 1, 2\)"),
        ({"initial_model": "nowhere/best.keras"}, "There is no model at 'nowhere/best.keras'"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_and_nothing_is_written(changes, message, first, tmp_path):
    with pytest.raises(InputError, match=message):
        trained(tmp_path / "run", **{"initial_model": str(first)} | changes)
    assert not (tmp_path / "run").exists()


def test_a_linear_head_becomes_a_hypersphere_on_the_way(tmp_path):
    trained(tmp_path / "linear", head="linear", ema=0.0)
    run = trained(tmp_path / "run", initial_model=str(tmp_path / "linear"), learning_rate=1e-9, ema=0.0)
    linear = athe_tf.load_model(tmp_path / "linear" / "best.keras")
    assert run.net.layers[-1].scale == 15.0
    for one, other in zip(run.net.trainable_variables, linear.trainable_variables, strict=False):
        np.testing.assert_allclose(one, other, atol=1e-6)


def net_of_file(path, head="linear", shape=(8, 8, 1), **changes):
    settings = {"model": str(path), "head": head, "ema": 0.0} | changes
    splits = dataclasses.replace(tiny_splits(), image_shape=shape)
    return make_net(dataclasses.replace(CONFIG, **settings), splits)


def test_a_model_is_a_file_with_its_layers_and_weights(tmp_path):
    mine = tiny_net("linear")
    mine.save(tmp_path / "mine.keras")
    net = net_of_file(tmp_path / "mine.keras")
    assert_equal_weights(get_weights(net), get_weights(mine))
    images = np.random.default_rng(0).random([4, 8, 8, 1], "float32")
    np.testing.assert_array_equal(net(images), mine(images))
    sphere = net_of_file(tmp_path / "mine.keras", head="mhe", scale=7.0)
    assert sphere.layers[-1].angular and sphere.layers[-1].scale == 7.0
    assert_equal_weights(get_weights(sphere)[:-1], get_weights(mine)[:-2])
    scaled = net_of_file(tmp_path / "mine.keras", input_range=(0.0, 255.0))
    np.testing.assert_allclose(scaled(images), mine(255 * images), rtol=1e-5)


def test_a_file_that_does_not_fit_is_refused(tmp_path):
    tiny_net("he").save(tmp_path / "sphere.keras")
    for changes, message in (
        ({}, "The head of the model '.*' is he. Received: --head=linear. Use --head=he"),
        ({"head": "he", "scale": 10.0}, "with the scale 15. Received: --scale=10. Use --scale=15"),
        ({"head": "he", "shape": (9, 9, 3)}, r"has 4 classes. Expected, for 'digits': \(9, 9, 3\) and 4"),
        ({"activation": "silu"}, "are used as they are. Received: --activation=silu. Leave --activation out"),
    ):
        with pytest.raises(InputError, match=message):
            net_of_file(tmp_path / "sphere.keras", **changes)
    with pytest.raises(InputError, match="There is no model at"):
        net_of_file(tmp_path / "none.keras")
