"""Pieces of published recipes: accumulated gradients, one-cycle rates, averages, optimizers."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf import InputError, attacks, training
from athe_tf.programs.config import TrainConfig
from athe_tf.training.options import OPTIMIZERS, OPTIONS
from athe_tf.training.schedules import Linear, OneCycle, PerEpoch, make_schedule
from tests.small_runs import SHAPE, assert_equal_weights, get_weights, tiny_batch, tiny_net

X, Y = tiny_batch(128)
WEIGHTS = np.linspace(0.5, 1.5, len(X))

# PyTorch 2.13: SGD(lr=0.2, momentum=0.9) with OneCycleLR(max_lr=0.2, total_steps=400, pct_start=0.025).
ONE_CYCLE = {
    0: (0.008, 0.95), 5: (0.12067022505602532, 0.8913175911166534), 9: (0.2, 0.85),
    100: (0.17431458528980925, 0.8628427587261303), 200: (0.10322197590306216, 0.8983892056052913),
    399: (8e-07, 0.95),
}  # fmt: skip


def frozen_net():
    """Convolution, frozen batch normalization and a cosine head, in float64."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input(SHAPE, dtype="float64")
    h = keras.layers.Conv2D(4, 3, strides=2, dtype="float64")(inputs)
    norm = athe_tf.BatchNorm(dtype="float64")
    h = keras.layers.Activation("softplus", dtype="float64")(norm(h))
    h = keras.layers.Flatten(dtype="float64")(h)
    net = keras.Model(inputs, athe_tf.CosineDense(4, dtype="float64")(h))
    norm.trainable = False
    return net


def make(name, net, run_eagerly=False, **settings):
    framework = training.get(name)
    if "batch_size" in inspect.signature(framework).parameters:
        settings["batch_size"] = len(X)
    options = OPTIONS[name]
    attack = attacks.PGD(0.1, steps=1 if options.one_step else 2, step_size=0.08)
    trainer = framework(net, attack, margin=0.2, seed=3, **settings)
    trainer.compile(training.TorchSGD(OneCycle(0.05, 12), 0.9, 1e-3), run_eagerly=run_eagerly)
    return trainer


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_parts_of_a_batch_give_the_update_of_the_batch(name):
    """Random starts, rates, the noise of FreeAT and averages are those of updates.

    Not compiled, which is most of the time; `benchmarks/contract.py` compiles it.
    """
    trainers, logs = [], []
    settings = {"replays": 2} if name == "free_at" else {}
    for accumulate in (1, 4):
        settings |= {"accumulate": accumulate, "average": training.EMA(0.9)}
        trainer = make(name, frozen_net(), run_eagerly=True, **settings)
        for _ in range(2):
            logs.append(trainer.train_on_batch(X, Y, sample_weight=WEIGHTS, return_dict=True))
        trainers.append(trainer)
    whole, parts = trainers
    assert int(whole.optimizer.iterations) == int(parts.optimizer.iterations)
    for one, other in ((whole.net, parts.net), (whole.averaged, parts.averaged)):
        assert_equal_weights(get_weights(one), get_weights(other), atol=1e-9)
    if name == "free_at":
        np.testing.assert_allclose(whole.noise, parts.noise, atol=1e-9)
    assert np.abs(get_weights(whole.net)[0] - get_weights(frozen_net())[0]).max() > 1e-4
    for one, other in zip(logs[:2], logs[2:], strict=True):
        assert one.keys() == other.keys()
        np.testing.assert_allclose(list(one.values()), list(other.values()), atol=1e-6)


def test_parts_go_with_weight_perturbation_and_clipping():
    results = []
    for accumulate in (1, 2):
        settings = {"weight_perturbation": training.AWP(0.01), "clip_norm": 0.1}
        trainer = make("trades", frozen_net(), run_eagerly=True, accumulate=accumulate, **settings)
        trainer.train_on_batch(X, Y)
        results.append(get_weights(trainer.net))
    assert_equal_weights(*results, atol=1e-9)


def test_a_batch_that_parts_do_not_divide_is_refused():
    trainer = make("pgd_at", tiny_net(), accumulate=3)
    with pytest.raises(InputError, match=r"accumulate=3 divides the batch.*Received: 128 images. Change"):
        trainer.train_on_batch(X, Y)
    with pytest.raises(InputError, match=r"Received: --batch_size=128 --accumulate=12.*--accumulate=4\.$"):
        TrainConfig(accumulate=12)


def test_one_cycle_is_that_of_pytorch_with_its_momentum():
    settings = {"rise": 0.025}
    rate = make_schedule("one_cycle", 0.2, 98, 400, per_epoch=True, **settings)
    momentum = OneCycle(0.85, 400, 0.025, 0.95 / 0.85, 0.95 / 0.85)
    for epoch, expected in ONE_CYCLE.items():
        found = [float(rate(98 * epoch)), float(rate(98 * epoch + 97)), float(momentum(epoch))]
        np.testing.assert_allclose(found, [expected[0], *expected], atol=1e-8)
    # Of one update per step; after the last one the rate stays.
    assert float(make_schedule("one_cycle", 0.2, 40, 10, **settings)(399)) == pytest.approx(8e-7)
    assert float(OneCycle(0.2, 10)(1000)) == pytest.approx(8e-7)


def test_the_momentum_of_sgd_follows_its_schedule():
    optimizer = training.TorchSGD(0.1, momentum=OneCycle(0.5, 4, 0.5, 1.8, 1.8), nesterov=True)
    variable = keras.Variable(np.ones(1, "float64"), dtype="float64")
    w, velocity = 1.0, 0.0
    for step, gradient in enumerate([0.5, -0.2, 0.1, 0.3]):
        momentum = [0.9, 0.5, 0.7, 0.9][step]
        velocity = momentum * velocity + gradient
        w -= float(np.float32(0.1)) * (gradient + momentum * velocity)
        optimizer.apply_gradients([(tf.constant([gradient], tf.float64), variable)])
        np.testing.assert_allclose(np.array(variable)[0], w, rtol=1e-12)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert again.get_config() == optimizer.get_config() and float(again.momentum(1)) == 0.5


def test_a_warm_up_comes_before_the_schedule_and_rates_end_at_the_lowest():
    cosine = make_schedule("cosine", 0.4, 10, 12, warm_up=2, lowest=0.1)
    np.testing.assert_allclose(
        [float(cosine(step)) for step in (0, 10, 20, 70, 120)], [0.0, 0.2, 0.4, 0.25, 0.1], atol=1e-7
    )
    drops = make_schedule("piecewise", 0.4, 10, 12, (4, 6), 0.1, warm_up=2, start_factor=0.5, lowest=0.01)
    np.testing.assert_allclose(
        [float(drops(step)) for step in (0, 10, 39, 40, 60)], [0.2, 0.3, 0.4, 0.04, 0.01], rtol=1e-6
    )
    constant = make_schedule("constant", 0.4, 10, 12, (4,), warm_up=2)
    np.testing.assert_allclose([float(constant(step)) for step in (10, 20, 110)], [0.2, 0.4, 0.4], rtol=1e-6)
    stepped = make_schedule("cosine", 0.4, 10, 4, per_epoch=True)
    assert isinstance(stepped, PerEpoch) and float(stepped(9)) == float(stepped(0)) > float(stepped(10))
    for schedule in (cosine, stepped, Linear(0.1, 5)):
        serialized = keras.saving.serialize_keras_object(schedule)
        again = keras.saving.deserialize_keras_object(serialized)
        assert float(again(7)) == float(schedule(7))


@pytest.mark.parametrize("statistics", ["copied", "averaged"])
def test_averages_wait_and_may_contain_the_statistics(statistics):
    """The first two updates copy; then 1/10 and 2/11, or the constant share."""
    for constant, shares in ((False, [0, 0, 0.1, 2 / 11]), (True, [0, 0, 0.9, 0.9])):
        average = training.EMA(0.9, start=2, constant=constant, statistics=statistics)
        trainer = training.Standard(tiny_net(), average=average)
        trainer.compile(training.TorchSGD(0.5))
        expected = get_weights(trainer.net)
        for share in shares:
            trainer.train_on_batch(X, Y)
            weights = get_weights(trainer.net)
            expected = [share * a + (1 - share) * w for a, w in zip(expected, weights, strict=True)]
        for variable, value, weight in zip(trainer.averaged.weights, expected, weights, strict=True):
            copied = variable.name.startswith("moving_") and statistics == "copied"
            np.testing.assert_allclose(variable, weight if copied else value, atol=1e-6)
    assert repr(average) == "EMA(0.9, start=2, constant=True" + (
        ")" if statistics == "copied" else ", statistics='averaged')"
    )


def test_the_first_update_copies_the_statistics_of_the_batch():
    """As DeepMind's: those of the last pass of the update; from then on the momentum counts."""
    net = tiny_net("linear")
    layer = next(each for each in net.layers if isinstance(each, athe_tf.BatchNorm))
    layer.momentum = 0.99
    seen = []
    trainer = training.Standard(net, bn_copy_first=True)
    trainer.compile(training.TorchSGD(0.0))
    for _ in range(2):
        before = np.array(layer.moving_mean)
        trainer.train_on_batch(X, Y)
        seen.append((before, np.array(layer.moving_mean)))
    inputs = keras.Model(net.input, layer.input)(X)
    mean = np.asarray(inputs).mean((0, 1, 2))
    np.testing.assert_allclose(seen[0][1], mean, atol=1e-6)
    np.testing.assert_allclose(seen[1][1], 0.99 * seen[1][0] + 0.01 * mean, atol=1e-6)
    built = athe_tf.models.build("small_cnn", 4, input_shape=SHAPE, bn_momentum=0.99)
    assert {each.momentum for each in built.layers if isinstance(each, athe_tf.BatchNorm)} == {0.99}


def test_the_names_of_optimizers_are_those_of_keras():
    wrappers = {"Optimizer", "OptimizerMap", "LossScaleOptimizer", "MultiOptimizer"}
    known = {name.lower() for name in vars(keras.optimizers) if name[0].isupper() and name not in wrappers}
    assert set(OPTIMIZERS) == known


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"optimizer": "adamv"}, "Unknown optimizer 'adamv'. Did you mean 'adam'"),
        (
            {"optimizer": "adamw(0.9)"},
            "every argument needs a name. Expected names and values, such as adamw",
        ),
        ({"optimizer": "adamw", "nesterov": True}, "--nesterov is an option of sgd"),
        (
            {"optimizer": "adamw(learning_rate=0.5)"},
            "optimizer's learning_rate has a flag.*Use --learning_rate.$",
        ),
        ({"optimizer": "sgd(momentum=0.5)"}, "optimizer's momentum has a flag.*Use --momentum.$"),
        ({"optimizer": "lion(gradient_accumulation_steps=4)"}, "has a flag of its own.*Use --accumulate.$"),
        ({"lr_rise": 0.1}, "--lr_rise is an option of --lr_schedule=one_cycle"),
        ({"lr_schedule": "cyclic", "lr_min": 0.1}, "--lr_min is an option of --lr_schedule=cosine and piece"),
        ({"lr_start_factor": 0.1}, "--lr_start_factor is an option of --lr_schedule=one_cycle"),
        ({"lr_schedule": "one_cycle", "lr_start_factor": 2.0}, r"--lr_start_factor must lie in \[0, 1\]"),
        ({"lr_warmup": 100}, "The warm-up ends before the first period.*Received: --lr_warmup=100"),
        ({"lr_schedule": "one_cycle", "momentum_range": (0.9,)}, "two rising numbers.*--momentum_range=0.9"),
        (
            {"lr_schedule": "one_cycle", "momentum": 0.8},
            "moves the momentum.*Received: --momentum=0.8. Leave",
        ),
        ({"ema_start": 3}, "--ema_start is an option of --ema. Received: no --ema"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(**settings)


def softmax(logits):
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def test_score_compares_probabilities_by_squares():
    trainer = make("trades", frozen_net(), divergence="mse", beta=3.0, label_smoothing=0.2)
    assert trainer.attack.loss == "mse"
    x, x_adv, y = tf.constant(X[:6], tf.float64), tf.constant(X[6:12], tf.float64), tf.constant(Y[:6])
    clean, adversarial = (np.asarray(trainer.net(images)) for images in (x, x_adv))
    onehot = np.eye(4)[Y[:6]]
    prediction = softmax(clean - 15 * 0.2 * onehot)
    expected = ((prediction - (0.8 * onehot + 0.05)) ** 2).sum(1)
    expected += 3.0 * ((softmax(clean) - softmax(adversarial)) ** 2).sum(1)
    np.testing.assert_allclose(trainer.training_loss(x, x_adv, y).losses, expected, rtol=1e-9)


def liet(**settings):
    trainer = make("liet", frozen_net(), **{"relaxation": 0.0, "consistency": 10.0} | settings)
    trainer.directions.assign(trainer.class_directions())
    return trainer


def test_liet_starts_from_directions_of_the_classes_and_noise():
    trainer = liet()
    x, y = tf.constant(0.5 + 0.2 * (X - 0.5), tf.float64), tf.constant(Y)
    change = np.asarray(trainer.craft(x, y) - x)
    label = 0.1 * np.asarray(trainer.directions)[Y]
    sides = np.unique(np.round(change / np.where(label == 0, np.nan, label), 6))
    side = max((1.0, -1.0), key=lambda s: np.isclose(change, s * label).mean())
    share = 1 - np.isclose(change, side * label).mean()
    # Epsilon is above 8/255 here: the noise has twice the size.
    assert 0.1 - 0.02 < share < 0.5 + 0.02 and len(sides) > 100
    assert 0.15 < np.abs(change).max() <= 0.2 + 1e-9
    # A gray image of each class climbs its loss along its direction.
    gray = tf.fill(trainer.directions.shape, tf.constant(0.5, tf.float64))
    steps = [
        -np.log(softmax(np.asarray(trainer.net(images)))[np.arange(4), np.arange(4)])
        for images in (gray, gray + 1e-3 * trainer.directions)
    ]
    assert (steps[1] > steps[0]).all()


def test_the_loss_of_liet_is_its_formula():
    """Against NumPy, with the gradient by finite differences of the loss along its own sign."""
    trainer = liet(updates=40)
    x, y = tf.constant(X[:6], tf.float64), tf.constant(Y[:6])
    start = trainer.craft(x, y)
    terms = trainer.training_loss(x, start, y)
    before, after = np.asarray(trainer.net(start)), np.asarray(terms.adversarial_logits)
    p, q = softmax(before), softmax(after)
    middle = np.log(0.5 * (p + q))
    js = 0.5 * ((p * (np.log(p) - middle)).sum(1) + (q * (np.log(q) - middle)).sum(1))
    true = np.eye(4)[Y[:6]]
    expected = -np.log(softmax(after - 15 * 0.2 * true)[np.arange(6), Y[:6]]) + 10.0 / 40 * js
    np.testing.assert_allclose(terms.losses, expected, rtol=1e-9)
    lower, higher = (-np.log(s[np.arange(6), Y[:6]]) for s in (p, q))
    assert (higher > lower).all()
    # The shares of the wrong classes are random and add up; the true class keeps the rest.
    logits = tf.constant(np.eye(4)[None, 1] * 50 + np.zeros((6, 1)))
    relaxed = liet(relaxation=0.6).relaxed_crossentropy(tf.ones(6, tf.int32), logits, tf.range(6), stream=7)
    np.testing.assert_allclose(relaxed, 50 * 0.6, rtol=1e-6)


def test_liet_renews_its_directions_and_keeps_them_in_a_backup():
    trainer = make("liet", tiny_net(), refresh=2)
    seen = []
    for _ in range(3):
        trainer.train_on_batch(X, Y)
        seen.append(np.array(trainer.directions))
    np.testing.assert_array_equal(seen[0], seen[1])
    assert (seen[1] != seen[2]).any() and np.abs(seen[0]).max() == 1
    assert any(variable is trainer.directions for variable in trainer.variables)


def test_the_step_size_of_the_training_attack_rises_by_epochs():
    schedule = PerEpoch(Linear(1.0, 4), 10)
    trainer = make("pgd_at", tiny_net(), step_schedule=schedule)
    for update, share in ((0, 0.0), (19, 0.25), (20, 0.5), (80, 1.0)):
        trainer.optimizer.iterations.assign(update)
        assert float(trainer.current_attack().step_size) == pytest.approx(share * 0.08)
    with pytest.raises(InputError, match="A schedule needs an attack whose epsilon.*Received: APGD"):
        training.PGDAT(tiny_net(), attacks.APGD(0.1), step_schedule=schedule)


def test_pgd_with_adam_steps_as_adam_does():
    """Against Adam written out, on a linear model, whose gradient is known."""
    weights = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
    inputs = keras.Input(SHAPE)
    layer = keras.layers.Dense(2, use_bias=False)
    model = keras.Model(inputs, layer(keras.layers.Flatten()(inputs)))
    layer.kernel.assign(weights)
    x, y = 0.5 * np.ones((1, *SHAPE), "float32"), np.array([0], "int32")
    attack = attacks.AdamPGD(0.5, steps=4, step_size=0.01, start="zero")
    found = np.asarray(attack(model, tf.constant(x), tf.constant(y))).ravel()
    point, mean, square = x.ravel().astype("float64"), np.zeros(64), np.zeros(64)
    for step in range(1, 5):
        wrong = softmax((point @ weights)[None])[0, 1]
        gradient = wrong * (weights[:, 1] - weights[:, 0])
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        rate = 0.01 if step <= 2 else 0.001
        point += rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(found, point, atol=1e-6)


@pytest.mark.parametrize("name", ["n_fgsm", "llr"])
def test_frameworks_that_make_their_own_steps_refuse_other_attacks(name):
    message = f"The framework '{name}' makes steps of PGD. Received: attack='pgd-adam'. Use 'pgd_at'."
    with pytest.raises(InputError, match=message):
        training.get(name)(tiny_net(), attacks.AdamPGD(0.1, steps=1))
    with pytest.raises(InputError, match=message):
        TrainConfig(framework=name, attack="pgd-adam")


@pytest.mark.parametrize("setting", [{"step_size": 0.1}, {"start": "zero"}, {"step_size_warmup": 2.0}])
def test_apgd_in_training_has_no_step_size_and_no_start(setting):
    with pytest.raises(InputError, match=f"APGD chooses.*--{next(iter(setting))}=.*out."):
        TrainConfig(attack="apgd-ce", **setting)
