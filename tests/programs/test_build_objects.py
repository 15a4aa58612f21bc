"""From a config to the model and the optimizer that it describes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import CosineDense, InputError
from athe_tf.programs import build
from athe_tf.programs.config import TrainConfig
from tests.small_runs import tiny_splits


def test_inputs_are_standardized_unless_the_config_says_otherwise():
    splits = tiny_splits()
    layers = {
        standardize: [type(layer) for layer in build.make_net(config(standardize=standardize), splits).layers]
        for standardize in (True, False)
    }
    assert keras.layers.Normalization in layers[True]
    assert layers[False] == [kind for kind in layers[True] if kind is not keras.layers.Normalization]


def config(**settings):
    return TrainConfig.from_flags(model="small_cnn", **settings)


def test_only_kernels_decay_if_the_config_says_so():
    net = build.make_net(config(), tiny_splits())
    for name in ("sgd", "adam"):
        optimizer = build.make_optimizer(
            config(optimizer=name, learning_rate=0.5, decay_variables="kernels", weight_decay=0.1), 10
        )
        for variable in net.trainable_variables:
            variable.assign(np.ones(variable.shape))
        zeros = [np.zeros(variable.shape, "float32") for variable in net.trainable_variables]
        optimizer.apply_gradients(zip(zeros, net.trainable_variables, strict=True))
        shrunk = {v.path for v in net.trainable_variables if not np.allclose(v, 1)}
        assert shrunk == {v.path for v in net.trainable_variables if v.path.endswith("kernel")}, name


def of_pixels(num_classes, input_shape):
    """A classifier of the user, who trained it on pixels of 0..255."""
    layers = [keras.Input(input_shape), keras.layers.Flatten(), keras.layers.Dense(num_classes)]
    return keras.Sequential(layers)


def test_a_model_of_another_range_takes_images_in_0_1():
    own = TrainConfig.from_flags(model=f"{__name__}:of_pixels", input_range=(0.0, 255.0))
    net = build.make_net(own, tiny_splits())
    x = np.random.default_rng(0).uniform(size=(2, 8, 8, 1)).astype("float32")
    np.testing.assert_allclose(net(x), net.layers[-1](255 * x), rtol=1e-5, atol=1e-4)
    with pytest.raises(InputError, match="'small_cnn' takes images in .0, 1.. Received: --input_range=0,255"):
        config(input_range=(0.0, 255.0))
    with pytest.raises(InputError, match="--input_range must be two rising numbers"):
        TrainConfig.from_flags(model=f"{__name__}:of_pixels", input_range=(255.0,))


def with_cosine_head(num_classes, input_shape):
    inputs = keras.Input(input_shape)
    return keras.Model(inputs, CosineDense(num_classes, scale=7.0)(keras.layers.Flatten()(inputs)))


def test_a_margin_is_for_models_of_the_user_that_have_a_cosine_head():
    def own(function):
        return TrainConfig.from_flags(model=f"{__name__}:{function}", margin=0.3, batch_size=16)

    trainer = build.make_trainer(own("with_cosine_head"), tiny_splits())
    assert (trainer.margin, trainer.scale) == (0.3, 7.0)
    with pytest.raises(InputError, match="A margin needs a hypersphere head. Received: a head 'Dense'"):
        build.make_trainer(own("of_pixels"), tiny_splits())


def test_the_form_of_the_margin_is_for_heads_that_have_it():
    trainer = build.make_trainer(
        config(head="he", margin=0.5, margin_form="arc", batch_size=16), tiny_splits()
    )
    turned = 15 * np.cos(np.arccos(3 / 15) + 0.5)
    np.testing.assert_allclose(
        trainer.with_margin([0], tf.constant([[3.0, 0, 0, 0]]))[0, 0], turned, rtol=1e-5
    )
    for head in ("linear", "mhe", "fn"):
        with pytest.raises(InputError, match="--margin_form=arc is for the head he. Received: --head="):
            config(head=head, margin_form="arc")


def test_a_recipe_can_be_tried_on_a_part_of_the_images():
    whole = build.make_splits(config(dataset="digits"))
    few = build.make_splits(config(dataset="digits", max_train_examples=50))
    assert len(few.train) == 50 and len(few.validation) == len(whole.validation)
    # Random ones, since folders are read class by class; and the same ones every time.
    assert len(set(few.train.labels)) == 10 and few.train.labels.tolist() != whole.train.labels[:50].tolist()
    again = build.make_splits(config(dataset="digits", max_train_examples=50))
    assert again.train.fingerprint() == few.train.fingerprint()
    assert len(build.make_splits(config(dataset="digits", max_train_examples=10**6)).train) == len(
        whole.train
    )
