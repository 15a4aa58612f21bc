"""The shared training step: modes of batch normalization, metrics, weights of examples, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import attacks, training
from athe_tf.training.adversarial_model import AdversarialModel, Terms
from athe_tf.training.options import BN_MODES, StandardOptions
from athe_tf.utils.errors import InputError
from tests.small_runs import assert_equal_weights, get_weights, tiny_batch, tiny_net

X, Y = tiny_batch()


def compiled(framework="pgd_at", net=None, rate=0.05, **kwargs):
    net = net or tiny_net()
    trainer = training.get(framework)(net, attacks.PGD(0.1, steps=2), **kwargs)
    trainer.compile(training.TorchSGD(rate))
    return trainer


class CraftOnly(AdversarialModel):
    """Crafts, and changes nothing else: what batch normalization does then is crafting's doing."""

    def train_step(self, data):
        self.craft(*data[:2])
        return {}

    def training_loss(self, x, x_adv, y):
        raise AssertionError


@pytest.mark.parametrize("mode", BN_MODES)
def test_crafting_changes_moving_statistics_in_train_mode_alone(mode):
    net = tiny_net()
    trainer = CraftOnly(net, attacks.PGD(0.1, steps=3), bn_mode=mode)
    trainer.compile()
    before = get_weights(net)
    trainer.train_on_batch(X, Y)
    unchanged = all(np.array_equal(a, b) for a, b in zip(before, get_weights(net), strict=True))
    assert unchanged == (mode != "train")


def test_train_mode_updates_the_statistics_once_a_pass():
    # With momentum 0 < a < 1 and a constant batch mean, k updates leave a^k of the way to go.
    inputs = keras.Input((2, 2, 1))
    bn = athe_tf.BatchNorm(momentum=0.5)
    net = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(bn(inputs))))
    trainer = CraftOnly(net, attacks.PGD(0.0, steps=3), bn_mode="train")
    trainer.compile()
    x = np.full((8, 2, 2, 1), 0.8, "float32")
    trainer.train_on_batch(x, np.zeros(8, "int32"))
    np.testing.assert_allclose(bn.moving_mean.numpy(), 0.8 * (1 - 0.5**3), rtol=1e-5)


def test_crafting_modes_normalize_by_different_statistics():
    net = tiny_net()
    bn = next(layer for layer in net.layers if isinstance(layer, athe_tf.BatchNorm))
    bn.moving_mean.assign(np.full(4, 0.3))
    crafted = {}
    for mode in BN_MODES:
        trainer = training.PGDAT(net, attacks.PGD(0.1, steps=3), bn_mode=mode)
        trainer.compile()
        crafted[mode] = trainer.craft(tf.constant(X), tf.constant(Y)).numpy()
    assert np.abs(crafted["eval"] - crafted["batch_no_update"]).max() > 0.01
    assert np.abs(crafted["frozen_clean"] - crafted["batch_no_update"]).max() > 0.01


@pytest.mark.parametrize("framework", ["pgd_at", "trades", "standard"])
def test_fit_logs_what_the_framework_meets(framework):
    trainer = compiled(framework)
    history = trainer.fit(X, Y, batch_size=8, epochs=2, validation_data=(X, Y), verbose=0).history
    training_logs = {"pgd_at": {"robust_accuracy"}, "standard": {"clean_accuracy"}}.get(
        framework, {"clean_accuracy", "robust_accuracy"}
    )
    validation = {"val_loss", "val_clean_accuracy", "val_robust_accuracy"}
    assert set(history) == {"loss"} | training_logs | validation
    assert all(np.isfinite(v).all() for v in history.values())


def test_compiled_metrics_see_the_clean_predictions_of_trades():
    trainer = training.TRADES(tiny_net(), attacks.PGD(0.1, steps=1))
    trainer.compile(training.TorchSGD(0.0), metrics=["accuracy"])
    logs = trainer.train_on_batch(X, Y, return_dict=True)
    assert logs["accuracy"] == logs["clean_accuracy"]


def test_validation_is_the_same_every_time_and_uses_eval_mode():
    trainer = compiled()
    before = get_weights(trainer.net)
    first = trainer.evaluate(X, Y, batch_size=8, verbose=0, return_dict=True)
    second = trainer.evaluate(X, Y, batch_size=8, verbose=0, return_dict=True)
    assert first == second
    assert_equal_weights(before, get_weights(trainer.net))


def test_an_example_with_weight_zero_does_not_count():
    weights = np.array([1.0] * 8 + [0.0] * 8, "float32")
    changed = X.copy()
    changed[8:] = 1 - changed[8:]
    results = []
    for x in (X, changed):
        trainer = compiled(net=tiny_net(batch_norm=False))
        trainer.train_on_batch(x, Y, sample_weight=weights)
        results.append(get_weights(trainer.net))
    assert_equal_weights(*results, atol=1e-7)


def test_weights_that_are_negative_or_no_column_are_refused_before_any_update():
    trainer = compiled("standard")
    before = get_weights(trainer.net)
    weights = np.linspace(1, 2, len(X)).astype("float32")
    for bad, found in ((weights - 1.5, "min=-0.5, max=0.5"), (weights * np.inf, "min=inf")):
        with pytest.raises(InputError, match=f"not negative. Received: {found}"):
            trainer.train_on_batch(X, Y, sample_weight=bad)
    with pytest.raises(InputError, match="must be finite and not negative. Received: min=-1, max=1"):
        trainer.fit(X, Y, class_weight={0: 1.0, 1: -1.0, 2: 1.0, 3: 1.0}, verbose=0)
    with pytest.raises(InputError, match="Received: 64 weights for 16 images"):
        trainer.train_on_batch(X, Y, sample_weight=np.ones((len(X), 4), "float32"))
    for bad in (np.ones((len(X), 2), "float32"), np.float32(2.0)):
        with pytest.raises(InputError, match=rf"Received: {bad.size} weights for 16 images"):
            trainer.fit(tf.data.Dataset.from_tensors((X, Y, bad)), verbose=0)
    assert_equal_weights(before, get_weights(trainer.net))


def test_regularisers_of_the_net_are_part_of_the_loss():
    inputs = keras.Input((8, 8, 1))
    dense = keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2(0.5))
    net = keras.Model(inputs, dense(keras.layers.Flatten()(inputs)))
    trainer = training.Standard(net)
    trainer.compile(training.TorchSGD(0.0))
    loss = trainer.train_on_batch(X, Y, return_dict=True)["loss"]
    plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(Y, net(X))
    penalty = 0.5 * np.square(dense.kernel.numpy()).sum()
    np.testing.assert_allclose(loss, float(plain) + penalty, rtol=1e-5)


def test_no_retracing_after_the_first_step():
    traces = []

    class Counted(training.PGDAT):
        def training_loss(self, x, x_adv, y):
            traces.append(1)
            return super().training_loss(x, x_adv, y)

    trainer = Counted(tiny_net(), attacks.PGD(0.1, steps=2))
    trainer.compile(training.TorchSGD(0.01))
    trainer.fit(X, Y, batch_size=8, epochs=1, verbose=0)
    count = len(traces)
    trainer.fit(X, Y, batch_size=8, epochs=3, verbose=0)
    assert len(traces) == count


def test_saving_the_trainer_saves_the_classifier(tmp_path):
    trainer = compiled()
    trainer.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(loaded(X), trainer.net(X))


def test_a_loss_that_is_not_a_number_stops_before_the_update():
    trainer = compiled("standard", tiny_net("linear", batch_norm=False))
    kernel, bias = trainer.net.layers[-1].get_weights()
    trainer.net.layers[-1].set_weights([kernel, np.full_like(bias, np.nan)])
    before = get_weights(trainer.net)
    with pytest.raises(InputError, match=r"^The training loss is not a number. A lower learning rate.*$"):
        trainer.fit(X, Y, verbose=0)
    assert_equal_weights(before, get_weights(trainer.net))


def test_mixed_precision_scales_the_loss_and_trains_the_same():
    class Half(AdversarialModel):
        options_class = StandardOptions  # which crafts nothing

        def training_loss(self, x, x_adv, y):
            logits = self.net(x, training=True)
            return Terms(self.crossentropy(y, logits), clean_logits=logits)

    results = []
    for scaled in (False, True):
        net = tiny_net()
        trainer = Half(net)
        optimizer = training.TorchSGD(0.05)
        trainer.compile(keras.optimizers.LossScaleOptimizer(optimizer, 1024.0) if scaled else optimizer)
        trainer.train_on_batch(X, Y)
        results.append(get_weights(net))
    assert_equal_weights(*results, atol=1e-6)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: training.PGDAT(tiny_net()), "PGDAT trains on adversarial examples and needs an attack"),
        (lambda: compiled(margin=-0.1), "margin must be finite and not negative"),
        (lambda: compiled(net=tiny_net("linear"), margin=0.2), "A margin needs a hypersphere head"),
        (lambda: compiled(bn_mode="evil"), "Unknown bn_mode 'evil'. Did you mean 'eval'"),
        (lambda: compiled("trades", beta=-1), "beta must be finite and not negative"),
        (lambda: compiled().compile(loss="mse"), "has its own loss"),
    ],
)
def test_impossible_arguments_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("mode", ["batch_no_update", "frozen_clean"])
def test_modes_that_need_our_batch_norm_say_so(mode):
    inputs = keras.Input((8, 8, 1))
    h = keras.layers.Flatten()(keras.layers.BatchNormalization()(inputs))
    net = keras.Model(inputs, keras.layers.Dense(4)(h))
    with pytest.raises(InputError, match=r"needs athe_tf.BatchNorm"):
        compiled(net=net, bn_mode=mode)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((255 * X).astype("uint8"), Y, "floats in .0, 1.. Received: uint8. Divide them by 255"),
        (X, np.ones([16, 5], "float32") / 5, r"or as probabilities of shape \[batch, 4\].*shape \(16, 5\)"),
    ],
)
def test_images_and_labels_of_another_form_are_refused(x, y, message):
    trainer = training.Standard(tiny_net())
    trainer.compile(training.TorchSGD(0.1))
    with pytest.raises(InputError, match=message):
        trainer.train_on_batch(x, y)


def _labels(value):
    labels = Y.astype("float32")
    labels[3] = value
    return labels


@pytest.mark.parametrize("mode", ["graph", "run_eagerly", "jit_compile"])
def test_values_that_would_give_a_false_accuracy_are_refused_before_any_update(mode):
    trainer = training.PGDAT(tiny_net(batch_norm=False), attacks.PGD(0.1, steps=1))
    trainer.compile(training.TorchSGD(0.1), **({} if mode == "graph" else {mode: True}))
    before = get_weights(trainer.net)
    for x, y, message in (
        (255 * X, Y, r"must lie in \[0, 1\]. Received: min=0.0.*, max=25.*Divide them by 255.*Rescaling"),
        (2 * X - 1, Y, "normalization inside the model"),
        (np.where(X > 0.9, np.nan, X), Y, "max=nan"),
        (X, _labels(4), r"integers in 0..3 with 4 classes. Received: min=0, max=4\."),
        (X, _labels(-1), "Received: min=-1, max=3"),
        (X, _labels(np.nan), "Received: min=nan"),
        (X, _labels(1.5), "Labels must be integers"),
    ):
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        for call in (trainer.fit, trainer.evaluate):
            with pytest.raises(InputError, match=message):
                call(data, verbose=0)
    assert_equal_weights(before, get_weights(trainer.net))
    assert trainer.evaluate(X, Y, verbose=0, return_dict=True)["robust_accuracy"] <= 1
    # Predictions do not depend on the range.
    assert trainer.predict(255 * X, verbose=0).shape == (16, 4)


def test_labels_may_be_of_a_shape_that_only_a_batch_tells():
    def batches():
        yield X, Y

    signature = (tf.TensorSpec([None, *X.shape[1:]]), tf.TensorSpec(None, tf.int32))
    trainer = training.Standard(tiny_net())
    trainer.compile(training.TorchSGD(0.1))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    assert np.isfinite(trainer.fit(data, verbose=0, shuffle=False).history["loss"]).all()


def test_a_model_that_ends_in_a_softmax_is_refused():
    inputs = keras.Input((8, 8, 1))
    features = keras.layers.Flatten()(inputs)
    for outputs in (
        keras.layers.Dense(4, activation="softmax")(features),
        keras.layers.Softmax()(keras.layers.Dense(4)(features)),
    ):
        with pytest.raises(InputError, match=r"need logits.*athe_tf.models.to_logits"):
            training.Standard(keras.Model(inputs, outputs))
