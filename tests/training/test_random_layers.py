"""Random layers at the front of a model: before the attack, once per batch, a function of seed and step."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.training.random_layers import augmented, cut
from athe_tf.utils.errors import InputError
from tests.small_runs import SHAPE, assert_equal_weights, get_weights, tiny_batch, tiny_net
from tests.training.test_contract import make

X, Y = tiny_batch()
layers = keras.layers


def with_front(net, *front):
    return keras.Sequential([keras.Input(SHAPE), *front, net])


def nested(net, *front):
    """The front in a Sequential of its own, and the net inside another model that begins with a layer."""
    inner = keras.Sequential([keras.Input(SHAPE), front[-1], net])
    inputs = keras.Input(SHAPE)
    augmentation = keras.Sequential(list(front[:-1]))
    return keras.Model(inputs, layers.Activation("linear")(inner(augmentation(inputs))))


def augmentation():
    return layers.RandomTranslation(0.3, 0.3, seed=1), layers.GaussianNoise(0.3, seed=2)


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_layers_inside_train_as_the_same_images_from_the_pipeline(name):
    inside = make(name, with_front(tiny_net(), *augmentation()), seed=3)
    plain = make(name, tiny_net(), seed=3)
    for _ in range(2):
        # The draws of this step, by hand: the layers called outside, in the pipeline.
        step = inside.step_seed()
        images = augmented(list(augmentation()), tf.constant(X), step).numpy()
        assert np.abs(images - X).max() > 0.1 and images.min() >= 0 and images.max() <= 1
        logs = [inside.train_on_batch(X, Y), plain.train_on_batch(images, Y)]
        np.testing.assert_allclose(*logs, rtol=1e-6)
    for one, other in zip(get_weights(inside.net), get_weights(plain.net), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)  # second derivatives round differently


def test_the_front_is_cut_at_any_depth_and_the_rest_shares_its_layers():
    net = tiny_net()
    for build in (with_front, nested):
        whole = build(net, *augmentation())
        front, rest = cut(whole)
        assert [type(layer).__name__ for layer in front] == ["RandomTranslation", "GaussianNoise"]
        np.testing.assert_array_equal(rest(X, training=False), whole(X, training=False))
        assert {id(w) for w in rest.weights} == {id(w) for w in net.weights}
        trainer = training.PGDAT(whole, attacks.PGD(0.1, steps=1))
        assert trainer.net is whole and trainer.head is net.layers[-1]


def test_models_without_random_layers_are_not_cut():
    net = tiny_net()
    behind = keras.Sequential([keras.Input(SHAPE), layers.Dropout(0.5), layers.Rescaling(1.0), net])
    for model in (net, behind, keras.Sequential([keras.Input(SHAPE), layers.Identity(), net])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trainer = training.PGDAT(model, attacks.PGD(0.1, steps=1))
        assert trainer.rest is model and not trainer.random_front


class Wrapped(keras.Model):
    """A model whose calls are Python code."""

    def __init__(self, flip, net):
        super().__init__()
        self.flip, self.net = flip, net

    def call(self, x, training=False):
        return self.net(self.flip(x, training=training), training=training)


def around(flip, net):
    """A connection leads around the random layer."""
    inputs = keras.Input(SHAPE)
    return keras.Model(inputs, net(layers.Add()([flip(inputs), inputs])))


@pytest.mark.parametrize("case", ["behind a Rescaling", "subclassed", "around", "in the middle"])
def test_random_layers_that_cannot_be_applied_first_are_named(case):
    flip, net, inputs = layers.RandomFlip(name="my_flip"), tiny_net(), keras.Input(SHAPE)
    model = {
        "behind a Rescaling": lambda: with_front(net, layers.Rescaling(1.0), flip),
        "subclassed": lambda: keras.Model(inputs, Wrapped(flip, net)(inputs)),
        "around": lambda: around(flip, net),
        "in the middle": lambda: keras.Sequential(
            [keras.Input(SHAPE), layers.Conv2D(3, 3), flip, layers.Flatten(), layers.Dense(4)]
        ),
    }[case]()
    with pytest.warns(UserWarning, match="random layers 'my_flip' .* Put them first .* or into the input"):
        trainer = training.PGDAT(model, attacks.PGD(0.1, steps=1))
    assert trainer.rest is model


def test_layers_that_mix_labels_are_refused_and_ranges_of_other_pixels_named():
    for layer in (layers.MixUp(), layers.CutMix()):
        with pytest.raises(InputError, match="would have to mix their labels.*out of the model.*--cutmix"):
            training.Standard(with_front(tiny_net(), layer))
    with pytest.warns(UserWarning, match=r"expects pixels up to 255.*value_range=\(0, 1\)"):
        training.Standard(with_front(tiny_net(), layers.RandomBrightness(0.1)))


def test_what_is_shipped_and_validated_is_the_whole_model(tmp_path):
    whole = with_front(tiny_net(), layers.RandomFlip(seed=1))
    trainer = training.PGDAT(whole, attacks.PGD(0.1, steps=1), average=training.EMA(0.5))
    trainer.compile(training.TorchSGD(0.05))
    logs = trainer.fit(X, Y, validation_data=(X, Y), verbose=0).history
    assert {"robust_accuracy", "val_robust_accuracy"} < set(logs)
    trainer.save(tmp_path / "whole.keras")
    loaded = athe_tf.load_model(tmp_path / "whole.keras")
    assert type(loaded.layers[0]).__name__ == "RandomFlip"
    np.testing.assert_array_equal(loaded(X), trainer.shipped(X))


def test_a_resumed_training_draws_the_same():
    def trainer_of(weights=None, updates=0):
        trainer = make("trades", with_front(tiny_net(), *augmentation()), seed=3)
        trainer.compile(keras.optimizers.SGD(0.05))
        if weights is not None:
            trainer.net.set_weights(weights)
        trainer.optimizer.iterations.assign(updates)
        return trainer

    through = trainer_of()
    through.train_on_batch(X, Y)
    resumed = trainer_of(get_weights(through.net), 1)
    for trainer in (through, resumed):
        trainer.train_on_batch(X, Y)
    assert_equal_weights(get_weights(through.net), get_weights(resumed.net))


def test_draws_change_with_seed_and_step_and_leave_the_layers_unchanged():
    front = list(augmentation())
    before = [np.asarray(v).copy() for layer in front for v in layer.variables]
    one, same, other = (augmented(front, tf.constant(X), seed).numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() > 0.1
    assert_equal_weights(before, [np.asarray(v) for layer in front for v in layer.variables])


class Shaken(layers.Layer):
    """Adds noise in training; `draw` makes it."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def call(self, x, training=False):
        return x + self.draw(tf.shape(x)) if training else x


def draws(function):
    return {
        "tf.random": lambda: tf.random.normal,
        "generator": lambda: tf.random.Generator.from_seed(0).normal,
        "stateless": lambda: lambda shape: tf.random.stateless_normal(shape, [1, 2]),
        "keras.random": lambda: keras.random.normal,
        "a generator of nobody": lambda: lambda shape: keras.random.normal(shape, seed=GENERATOR),
    }[function]()


GENERATOR = keras.random.SeedGenerator(3)
UNSEEN = ("tf.random", "generator", "keras.random", "a generator of nobody")


@pytest.mark.parametrize("function", [*UNSEEN, "stateless"])
def test_random_numbers_that_keras_does_not_know_of_are_named(function):
    net = keras.Sequential([keras.Input(SHAPE), Shaken(draws(function)), layers.Dropout(0.1), tiny_net()])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        make("pgd_at", net).train_on_batch(X, Y)
    told = [str(each.message) for each in heard if "draws random numbers" in str(each.message)]
    # A stateless draw is the same in every pass.
    assert bool(told) == (function in UNSEEN)
    assert all(f"The model '{net.name}' draws" in one and "SeedGenerator" in one for one in told)
