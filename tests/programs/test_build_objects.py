"""From a config to the model and the optimizer that it describes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import CosineDense, InputError, training
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


def recorded(function, calls):
    """A function that also keeps the arguments of its calls."""

    def call(*arguments, **settings):
        calls.append((arguments, settings))
        return function(*arguments, **settings)

    return call


def test_every_setting_of_the_model_reaches_it(monkeypatch):
    calls, splits = [], tiny_splits()
    monkeypatch.setattr(build.models, "build", recorded(build.models.build, calls))
    build.make_net(
        config(head="he", scale=7.0, weight_norm="project", activation="silu", bn_momentum=0.97, seed=5),
        splits,
    )
    ((_, settings),) = calls
    expected = {
        "num_classes": 4, "head": "he", "input_shape": (8, 8, 1), "scale": 7.0, "weight_norm": "project",
        "mean": splits.mean, "std": splits.std, "activation": "silu", "bn_momentum": 0.97, "seed": 5,
    }  # fmt: skip
    assert settings == expected


def test_every_setting_of_the_attack_reaches_it():
    attack = build.make_attack(
        config(epsilon=0.1, norm="l2", steps=3, step_size=0.02, start="gaussian", restarts=2, logit_scale="4")
    )
    assert (attack.epsilon, attack.threat.norm, attack.steps, attack.step_size) == (0.1, "l2", 3, 0.02)
    assert (attack.start, attack.restarts, attack.logit_scale) == ("gaussian", 2, 4.0)
    validation = build.make_validation_attack(
        config(epsilon=0.1, norm="l2", validation_attack="pgd-7", steps=3)
    )
    assert (validation.epsilon, validation.threat.norm, validation.steps) == (0.1, "l2", 7)
    assert build.make_attack(config(framework="standard")) is None


def test_every_setting_of_the_optimizer_reaches_it():
    """The rate is 0.5 in the first epoch of ten updates, and a fifth of that after the drop."""
    settings = {"learning_rate": 0.5, "lr_drops": (1.0,), "lr_drop_factor": 0.2, "epochs": 3}
    sgd = build.make_optimizer(config(momentum=0.7, nesterov=True, weight_decay=0.01, **settings), 10)
    assert (sgd.momentum, sgd.nesterov, float(sgd.weight_decay)) == (0.7, True, 0.01)
    sgd.build([keras.Variable([0.0])])
    assert float(sgd.learning_rate) == pytest.approx(0.5)
    sgd.iterations.assign(12)
    assert float(sgd.learning_rate) == pytest.approx(0.1)
    adam = build.make_optimizer(config(optimizer="adam", weight_decay=0.01, **settings), 10)
    assert isinstance(adam, keras.optimizers.Adam) and float(adam.weight_decay) == 0.01


def test_every_setting_of_the_epsilon_schedule_reaches_it():
    """In updates: ten per epoch, a delay of 1 epoch, a rise over 2."""
    risen = config(
        epsilon=0.2,
        epsilon_schedule="linear",
        epsilon_min=0.1,
        epsilon_warmup=2.0,
        epsilon_delay=1.0,
        epochs=8,
    )
    schedule = build.make_epsilon_schedule(risen, 10)
    values = [float(schedule(tf.constant(step))) for step in (0, 10, 20, 30, 79)]
    assert values == pytest.approx([0.1, 0.1, 0.15, 0.2, 0.2])
    assert build.make_epsilon_schedule(config(), 10) is None


def test_every_setting_of_the_framework_reaches_it(monkeypatch):
    calls = []
    made = training.get("trades")
    monkeypatch.setattr(build.training, "get", lambda name: recorded(made, calls))
    wanted = config(
        framework="trades", beta=3.0, head="he", margin=0.15, label_smoothing=0.1, clip_norm=2.0, seed=9,
        awp_gamma=0.01, awp_start=2.0, ema=0.9, batch_size=16, epochs=5, lr_drops=(3.0,),
    )  # fmt: skip
    trainer = build.make_trainer(wanted, tiny_splits())
    (((net, attack), settings),) = calls
    assert net is trainer.net and attack.steps == 10
    assert {name: settings[name] for name in ("margin", "label_smoothing", "clip_norm", "seed", "beta")} == {
        "margin": 0.15, "label_smoothing": 0.1, "clip_norm": 2.0, "seed": 9, "beta": 3.0
    }  # fmt: skip
    # 64 images in batches of 16 are four updates per epoch.
    assert (settings["weight_perturbation"].gamma, settings["weight_perturbation"].start) == (0.01, 8)
    assert settings["average"].decay == 0.9


def test_an_epoch_of_batches_is_that_of_its_number():
    splits, wanted = tiny_splits(), config(batch_size=16, seed=3, augmentation="none")
    labels = [y.numpy().tolist() for _, y in splits.train.stream(16, seed=3, epochs=2)]
    assert [y.numpy().tolist() for _, y in build.epoch_batches(wanted, splits, 1)] == labels[4:]
