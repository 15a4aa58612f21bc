"""What every framework of the registry must hold; a new one is tested by being registered."""

import dataclasses
import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf import attacks, training
from athe_tf.training.options import OPTIONS
from athe_tf.utils.errors import InputError
from tests.small_runs import get_weights, tiny_batch, tiny_net

X, Y = tiny_batch()


# Later replays see the weights and the noise of earlier ones.
ONE_REPLAY = {"free_at": {"replays": 1}}


def attack_for(options):
    return attacks.PGD(0.1, steps=1 if options.one_step else 2, step_size=options().step_size(0.1))


def make(name, net=None, **kwargs):
    """A compiled trainer of a framework, with what its constructor needs beyond the common arguments."""
    framework = training.get(name)
    if "batch_size" in inspect.signature(framework).parameters:
        kwargs["batch_size"] = len(X)
    net = tiny_net() if net is None else net
    trainer = framework(net, attack_for(OPTIONS[name]), margin=0.2, **kwargs)
    trainer.compile(training.TorchSGD(0.05))
    return trainer


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_the_contract(name):
    trainer = make(name, seed=3)
    images, labels = X.copy(), Y.copy()
    before = get_weights(trainer.net)
    logs = trainer.train_on_batch(images, labels, return_dict=True)
    # One step changes weights, and not its inputs.
    assert any((a != b).any() for a, b in zip(before, get_weights(trainer.net), strict=True))
    np.testing.assert_array_equal(images, X)
    np.testing.assert_array_equal(labels, Y)
    # It counts its updates, and logs what it promises.
    assert int(trainer.optimizer.iterations) == trainer.options.updates_per_step
    assert np.isfinite(logs["loss"]) and {"loss"} < set(logs) <= {"loss", "clean_accuracy", "robust_accuracy"}
    validated = trainer.evaluate(images, labels, verbose=0, return_dict=True)
    assert {"loss", "clean_accuracy", "robust_accuracy"} == set(validated)
    # The same seed and the same weights give the same step.
    again = make(name, seed=3)
    again.net.set_weights(before)
    again.train_on_batch(images, labels)
    for one, other in zip(get_weights(trainer.net), get_weights(again.net), strict=True):
        np.testing.assert_array_equal(one, other)
    # What it costs is known, and what is shipped is the plain classifier.
    assert all(count >= 1 for count in trainer.cost())
    assert trainer.shipped is trainer.net
    assert repr(trainer).startswith(type(trainer).__name__) and "attack=" in repr(trainer)


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_the_margin_of_every_framework_has_a_form(name):
    """Computed without `fit`, in which a framework has more to do."""
    x, x_adv, y = tf.constant(X[:4]), tf.constant(X[4:8]), tf.constant(Y[:4])
    losses = {}
    for form in (None, "cosine", "arc"):
        trainer = make(name, margin_form=form)
        crafted = trainer.craft(x, y) if name == "gradalign" else x_adv  # with a gradient, for its penalty
        losses[form] = trainer.training_loss(x, crafted, y).losses.numpy()
    np.testing.assert_array_equal(losses[None], losses["cosine"])
    assert np.isfinite(losses["arc"]).all() and (losses["arc"] != losses["cosine"]).all()


def test_the_form_of_a_margin_must_suit_the_head():
    attack = attacks.PGD(0.1, steps=1)
    logits, y = tf.constant([[7.0, 3.0, -2.0, 1.0]]), tf.constant([1])
    turned = 15 * np.cos(np.arccos(3 / 15) + 0.5)
    expected = np.log(np.exp([7.0, turned, -2.0, 1.0]).sum()) - turned
    trainer = training.PGDAT(tiny_net(), attack, margin=0.5, margin_form="arc")
    np.testing.assert_allclose(trainer.crossentropy(y, logits), [expected], rtol=1e-5)
    np.testing.assert_allclose(trainer.with_margin(y, logits), [[7.0, turned, -2.0, 1.0]], rtol=1e-5)
    with pytest.raises(InputError, match="which are angles. Use form='angle'"):
        training.PGDAT(tiny_net("mhe"), attack, margin=0.5, margin_form="arc")
    with pytest.raises(InputError, match="Expected a CosineDense layer"):
        training.PGDAT(tiny_net("linear"), attack, margin_form="arc")


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_the_constructor_has_the_options_with_their_defaults(name):
    framework = training.get(name)
    parameters = inspect.signature(framework).parameters
    for field in dataclasses.fields(OPTIONS[name]):
        assert parameters[field.name].default == field.default, field.name
        assert parameters[field.name].annotation == field.type, field.name
    # With those of every framework, and none that stands for others.
    shared = inspect.signature(training.AdversarialModel).parameters
    assert list(parameters)[:2] == ["net", "attack"] and shared.keys() <= parameters.keys()
    assert {each.kind for each in parameters.values()} == {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
    assert "margin" not in inspect.signature(make(name)).parameters  # what a trainer is called with


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_the_docstring_has_the_options_with_their_defaults(name):
    documentation = inspect.getdoc(training.get(name))
    for field in dataclasses.fields(OPTIONS[name]):
        (entry,) = re.findall(rf"^    {field.name}: .*\n(?:        .*\n)*", documentation, re.M)
        if field.metadata["choices"] and field.default is not None:
            assert f'`"{field.default}"` (default)' in entry, entry
        elif field.default is not None:
            found = re.search(r"Defaults\s+to\s+(?:the paper's )?`?([\w.]*\w)", entry)
            expected = f"{field.default:g}" if field.type is float else str(field.default)
            assert found and found[1] == expected, entry


def test_a_constructor_of_ones_own_keeps_the_arguments_that_it_passes_on():
    class Own(training.TRADES):
        def __init__(self, net, *args, temperature: float = 2.0, **kwargs):
            super().__init__(net, *args, **kwargs)

    class Closed(training.TRADES):
        def __init__(self, net, temperature=2.0):
            super().__init__(net, attacks.PGD(0.1))

    found = list(inspect.signature(Own).parameters)
    assert found[:5] == ["net", "attack", "temperature", "beta", "divergence"] and "margin" in found
    assert list(inspect.signature(Closed).parameters) == ["net", "temperature"]


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_what_prepare_returns_is_trained_on(name):
    """A step on prepared images, labels and weights is the step on a batch that was given like this."""
    weights = np.linspace(0.5, 1.5, len(X)).astype("float32")

    def make_step(batch, prepare=None):
        trainer = make(name, seed=3)
        if prepare is not None:
            trainer.prepare = prepare
        trainer.compile(training.TorchSGD(0.05), run_eagerly=True)
        logs = trainer.train_on_batch(*batch, return_dict=True)
        return logs, get_weights(trainer.net)

    expected, ours = make_step((X[::-1].copy(), Y[::-1].copy(), weights))
    logs, found = make_step((X, Y), lambda x, y, _: (x[::-1], y[::-1], tf.constant(weights)))
    assert logs == expected
    for one, other in zip(ours, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_sample_weights_weight_the_loss_of_each_example(name):
    """Against a loop over the examples: without batch normalization, each one's loss is its own."""
    weights = np.random.default_rng(5).uniform(0, 2, len(X)).astype("float32")

    trainer = make(name, tiny_net(batch_norm=False), seed=3, **ONE_REPLAY.get(name, {}))
    trainer.compile(keras.optimizers.SGD(1.0))
    start = trainer.net.get_weights()

    def step(weight):
        """The logged loss, and the change of the weights by the first step of plain SGD at rate 1."""
        trainer.net.set_weights(start)
        for variable in (trainer.optimizer.iterations, getattr(trainer, "noise", None)):
            if variable is not None:
                variable.assign(np.zeros_like(variable))
        trainer.reset_metrics()
        loss = trainer.train_on_batch(X, Y, sample_weight=weight, return_dict=True)["loss"]
        return float(loss), [a - b for a, b in zip(start, trainer.net.get_weights(), strict=True)]

    flat, column = (step(weight) for weight in (weights, weights[:, None]))
    assert flat[0] == column[0]
    # All weight on one example gives its part of the mean.
    alone = [step(row) for row in np.eye(len(X), dtype="float32")]
    expected = sum(w * loss for w, (loss, _) in zip(weights, alone, strict=True))
    np.testing.assert_allclose(flat[0], expected, rtol=1e-4)
    for position, (change, same) in enumerate(zip(flat[1], column[1], strict=True)):
        np.testing.assert_array_equal(change, same)
        expected = sum(w * changes[position] for w, (_, changes) in zip(weights, alone, strict=True))
        np.testing.assert_allclose(change, expected, atol=1e-4)


def test_training_can_change_pgd_and_its_variants_only():
    for attack in (attacks.PGD(0.1), attacks.FGSM(0.1), attacks.MIM(0.1)):
        training.PGDAT(tiny_net(), attack, epsilon_schedule=lambda update: 0.1)
    with pytest.raises(InputError, match="TRADES crafts with an attack that.*Received: Square."):
        training.TRADES(tiny_net(), attacks.Square(0.1))
    with pytest.raises(InputError, match="A schedule needs an attack whose epsilon.*Received: APGD."):
        training.PGDAT(tiny_net(), attacks.APGD(0.1), epsilon_schedule=lambda update: 0.1)
    training.PGDAT(tiny_net(), attacks.APGD(0.1))


@pytest.mark.parametrize(
    "name, field",
    [(name, field) for name, options in OPTIONS.items() for field in dataclasses.fields(options)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_bad_value_is_refused_in_python_as_by_the_options(name, field):
    """The flags refuse it with the same words: they are checked by the same class."""
    if field.metadata["choices"]:
        bad = "nonsense"
    elif field.metadata["ge"] is not None or field.metadata["gt"] is not None:
        bad = -1
    else:
        pytest.skip("any value will do")
    with pytest.raises(InputError) as by_options:
        OPTIONS[name](**{field.name: bad})
    with pytest.raises(InputError) as in_python:
        make(name, **{field.name: bad})
    assert str(by_options.value) == str(in_python.value) and field.name in str(in_python.value)


@pytest.mark.parametrize("name", sorted(training.FRAMEWORKS))
def test_every_documented_example_and_docstring_is_there(name):
    framework = training.get(name)
    assert "Example:" in framework.__doc__ and "athe_tf.training." in framework.__doc__


def test_trades_and_mart_start_as_their_authors_did_unless_a_start_is_chosen():
    for name in ("trades", "mart"):
        framework = training.get(name)
        assert framework(tiny_net(), attacks.PGD(0.1)).attack.start == "gaussian"
        assert framework(tiny_net(), attacks.PGD(0.1, start="uniform")).attack.start == "uniform"
    assert training.PGDAT(tiny_net(), attacks.PGD(0.1)).attack.start == "uniform"


@pytest.mark.parametrize("name", ["trades", "llr"])
def test_a_start_without_gradient_is_refused(name):
    with pytest.raises(InputError, match="zero gradient at the clean image. Received: start='zero'"):
        training.get(name)(tiny_net(), attacks.PGD(0.1, start="zero"))


def test_a_framework_of_ones_own_needs_a_loss_and_nothing_else():
    @dataclasses.dataclass(frozen=True)
    class HalfOptions(training.FrameworkOptions):
        pass

    class Half(training.AdversarialModel):
        options_class = HalfOptions

        def training_loss(self, x, x_adv, y):
            logits = self.net(x_adv, training=True)
            return training.Terms(0.5 * self.crossentropy(y, logits), adversarial_logits=logits)

    keras.utils.set_random_seed(0)
    trainer = Half(tiny_net(), attacks.PGD(0.1, steps=1))
    trainer.compile(training.TorchSGD(0.1))
    assert np.isfinite(trainer.train_on_batch(tf.constant(X), Y, return_dict=True)["loss"])
