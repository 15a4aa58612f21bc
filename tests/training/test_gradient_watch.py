"""Images without a gradient are counted in training and validation, said, and stop a training if all are."""

import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks, training
from athe_tf.training import gradient_watch
from athe_tf.training.options import OPTIONS
from athe_tf.utils.errors import InputError
from tests.small_runs import SHAPE, tiny_batch, tiny_net
from tests.training.test_contract import make

X, Y = tiny_batch()
CRAFTING = sorted(name for name in training.FRAMEWORKS if OPTIONS[name].crafts)


class Trap(keras.layers.Layer):
    """The identity, whose input gradient is NaN, or zero, for images that are bright in their first pixel."""

    def __init__(self, factor=np.nan, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        bright = x[:, :1, :1, :1] > 0.5

        @tf.custom_gradient
        def identity(values):
            return tf.identity(values), lambda g: tf.where(bright, g * self.factor, g)

        return identity(x)


def images(bright):
    """The images of the batch, of which the first so many are bright in a pixel that no attack moves far."""
    x = X.copy()
    x[:, 0, 0, 0] = np.where(np.arange(len(x)) < bright, 1.0, 0.0)
    return x


def trapped(name="pgd_at", factor=np.nan, **kwargs):
    return make(name, keras.Sequential([keras.Input(SHAPE), Trap(factor), tiny_net()]), **kwargs)


def factor_for(name):
    """The gradient is part of the losses of these two, which are not numbers if the gradient is none."""
    return 0.0 if name in ("gradalign", "llr") else np.nan


def said(trainer, x, **kwargs):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        trainer.fit(x, Y, batch_size=8, verbose=0, **kwargs)
    return [str(each.message) for each in heard if "gradient" in str(each.message)]


@pytest.mark.parametrize("name", CRAFTING)
@pytest.mark.parametrize("how", ["jit_compile", "run_eagerly", None])
def test_every_framework_that_crafts_counts_its_images(name, how):
    if how and name not in ("pgd_at", "free_at"):
        return  # what XLA compiles, or nobody does, is the same code
    trainer = trapped(name, factor_for(name))
    trainer.compile(training.TorchSGD(0.0), **({how: True} if how else {}))
    replays = trainer.options.updates_per_step
    trainer.train_on_batch(images(bright=6), Y)
    seen, zero, nonfinite, unusable = (trainer.crafted.read() / replays).tolist()
    found = (0, 6) if np.isnan(factor_for(name)) else (6, 0)
    assert (seen, unusable) == (16, 6) and (zero, nonfinite) == found


@pytest.mark.parametrize(
    ("factor", "which"),
    [(np.nan, r"zero \(0.0%\) or not finite \(37.5%\)"), (0.0, r"zero \(37.5%\) or not finite \(0.0%\)")],
)
def test_a_share_is_said_for_training_and_validation_apart(factor, which):
    x = images(bright=6)
    lines = said(trapped(factor=factor), x, validation_data=(x, Y))
    assert len(lines) == 2
    for line, part in zip(lines, ("validation images", "training images of epoch 1"), strict=True):
        assert line.startswith(f"37.5% of the {part} had an input gradient") and "tf.where" in line
        assert re.search(which, line)
    # Healthy images, and an epsilon of 0.
    assert said(trapped(), images(bright=0), validation_data=(images(0), Y)) == []
    none = training.PGDAT(trapped().net, attacks.PGD(0.0, steps=2))
    none.compile("sgd")
    assert said(none, x, validation_data=(x, Y)) == []


@pytest.mark.parametrize("name", CRAFTING)
def test_a_training_without_any_gradient_stops(name):
    with pytest.raises(InputError, match="none of the .* images of an epoch had .* tf.stop_gradient"):
        trapped(name, factor_for(name)).fit(images(bright=16), Y, batch_size=16, verbose=0)


def test_it_stops_within_an_epoch(monkeypatch):
    monkeypatch.setattr(gradient_watch, "STEPS", 2)
    steps = []
    counted = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
    with pytest.raises(InputError, match="none of the 4 training images of 2 steps"):
        trapped().fit(images(bright=16), Y, batch_size=2, verbose=0, callbacks=[counted])
    assert steps == [0]


def test_steps_are_counted_across_epochs(monkeypatch):
    monkeypatch.setattr(gradient_watch, "STEPS", 2)
    # Three steps per epoch, of which the second has gradients: the window of two steps ends in the next one.
    x = images(bright=16)[:12]
    x[4:8, 0, 0, 0] = 0.0
    with pytest.raises(InputError, match="none of the 8 training images of 2 steps"):
        trapped().fit(x, Y[:12], batch_size=4, epochs=3, shuffle=False, verbose=0)


def test_a_model_without_a_gradient_is_refused_with_the_usual_causes():
    net = keras.Sequential([keras.Input(SHAPE), keras.layers.Lambda(tf.round), tiny_net()])
    with pytest.raises(InputError, match="no gradient with respect to its input.*rounding, an integer input"):
        make("pgd_at", net).fit(X, Y, verbose=0)
    for name in ("llr", "cure"):
        with pytest.raises(InputError, match="gradient.*rounding"):
            make(name, net).fit(X, Y, verbose=0)


def test_an_image_whose_logits_are_nan_is_not_classified_correctly():
    inputs = keras.Input(SHAPE)
    net = keras.Model(inputs, tiny_net("linear")(inputs) * np.float32("nan"))
    trainer = training.PGDAT(net, attacks.get("square", epsilon=0.05, n_queries=2))
    trainer.compile("sgd")
    found = trainer.evaluate(X, np.zeros_like(Y), verbose=0, return_dict=True)
    assert (found["clean_accuracy"], found["robust_accuracy"]) == (0.0, 0.0)


def test_a_wide_gap_between_training_and_validation_is_said_once():
    watch, lines = gradient_watch.GradientWatch(lambda line: lines.append(line)), []
    watch.set_model(make("pgd_at"))
    for epoch, (ours, theirs) in enumerate([(0.6, 0.36), (0.6, 0.34), (0.9, 0.1)]):
        watch.on_epoch_end(epoch, {"robust_accuracy": ours, "val_robust_accuracy": theirs})
    watch.on_epoch_end(9, {"robust_accuracy": 0.9})  # no validation
    assert len(lines) == 1 and lines[0].startswith("Robust accuracy in epoch 2 is 26 points higher")


def test_the_logs_and_the_variables_of_a_trainer_are_as_before():
    trainer = make("trades")
    history = trainer.fit(X, Y, 8, 1, 0, [keras.callbacks.LambdaCallback()], validation_data=(X, Y)).history
    names = {"loss", "clean_accuracy", "robust_accuracy"}
    assert set(history) == names | {f"val_{name}" for name in names}
    assert all(variable.dtype != "int64" for variable in trainer.variables)


@pytest.mark.parametrize("name", ["llr", "cure", "gradalign"])
def test_a_loss_that_contains_gradients_which_are_not_finite_says_so(name):
    trainer = trapped(name)
    before = [np.array(weight) for weight in trainer.net.trainable_weights]
    with pytest.raises(InputError, match="contains gradients with respect to the images.*tf.where around"):
        trainer.fit(images(bright=3), Y, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(before, trainer.net.trainable_weights, strict=True))


@pytest.mark.parametrize("attack", ["deepfool", "fab", "cw-linf-2"])
def test_attacks_of_every_kind_count_their_images(attack):
    trainer = training.PGDAT(trapped().net, attacks.get(attack, epsilon=0.05))
    trainer.compile("sgd")
    trainer.train_on_batch(images(bright=5), Y)
    seen, zero, nonfinite, _ = trainer.crafted.read().tolist()
    # An image that is misclassified before the first step needs no gradient.
    assert seen == len(X) and zero == 0 and 1 <= nonfinite <= 5


def test_an_attack_without_gradients_has_none_to_count():
    trainer = training.PGDAT(trapped().net, attacks.get("square", epsilon=0.05, n_queries=2))
    trainer.compile("sgd")
    assert said(trainer, images(bright=16)) == []
