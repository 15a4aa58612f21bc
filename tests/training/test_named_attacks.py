"""Attacks of trainers by name, and the models that trainers and exports take or refuse."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf import InputError
from athe_tf.attacks import PGD
from athe_tf.training import PGDAT, TRADES, FastAT, Standard
from tests.small_runs import tiny_batch, tiny_net

X, Y = tiny_batch(8)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.flatten, self.dense = keras.layers.Flatten(), keras.layers.Dense(4)

    def call(self, images):
        return self.dense(self.flatten(images))


def test_a_name_is_the_attack_of_bin_train():
    trainer = TRADES(tiny_net(), "pgd-7", epsilon=0.08, norm="l2", beta=3.0)
    by_hand = TRADES(tiny_net(), PGD(0.08, "l2", steps=7, step_size=0.02), beta=3.0)
    assert repr(trainer.attack) == repr(by_hand.attack)
    assert trainer.validation_attack.steps == 7
    # FastAT takes steps of 1.25 epsilon.
    assert FastAT(tiny_net(), "pgd-1", epsilon=0.08).attack.step_size == pytest.approx(0.1)


def test_the_validation_attack_has_a_name_too():
    trainer = PGDAT(tiny_net(), "pgd-2", validation_attack="cw-linf-3", epsilon=0.1)
    assert type(trainer.validation_attack).__name__ == "CWLinf" and trainer.validation_attack.steps == 3
    assert Standard(tiny_net(), validation_attack="fgsm", epsilon=0.1).validation_attack.threat.epsilon == 0.1


def test_swift_validates_in_its_short_form():
    net = tiny_net("linear")
    judge = Standard(net, validation_attack="swift", epsilon=0.05)
    judge.compile()
    logs = judge.evaluate(X, np.asarray(net(X)).argmax(1), batch_size=4, verbose=0, return_dict=True)
    assert logs["clean_accuracy"] == 1.0 and 0.0 <= logs["robust_accuracy"] < 1.0
    weaker = Standard(net, validation_attack="fgsm", epsilon=0.05)
    weaker.compile()
    found = weaker.evaluate(X, np.asarray(net(X)).argmax(1), batch_size=4, verbose=0, return_dict=True)
    assert logs["robust_accuracy"] <= found["robust_accuracy"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"attack": "pgd-10"}, "needs `epsilon`. Received: attack='pgd-10' without it"),
        ({"attack": "pdg-10", "epsilon": 0.1}, "Unknown attack 'pdg'. Did you mean 'pgd'"),
        ({"attack": PGD(0.1), "epsilon": 0.1}, "belong to attacks given by name.*epsilon=0.1"),
        ({"attack": PGD(0.1), "norm": "l2"}, "belong to attacks given by name.*norm='l2'"),
    ],
)
def test_names_that_cannot_work_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        PGDAT(tiny_net(), **arguments)


@pytest.mark.parametrize("built", [False, True])
def test_a_subclassed_model_is_refused_with_the_lines_that_wrap_it(built, tmp_path):
    net = Subclassed()
    if built:
        net(X)
    for use in (lambda: PGDAT(net, "pgd-1", epsilon=0.1), lambda: athe_tf.export(net, tmp_path / "out")):
        with pytest.raises(InputError, match=r"Wrap it: net = keras.Model\(images, net\(images\)\)"):
            use()


def test_a_wrapped_subclassed_model_is_trained_attacked_and_exported(tmp_path):
    net = Subclassed()
    images = keras.Input(X.shape[1:])
    wrapped = keras.Model(images, net(images))
    trainer = PGDAT(wrapped, "pgd-2", epsilon=0.1)
    trainer.compile("sgd")
    before = net.dense.kernel.numpy()
    trainer.fit(X, Y, verbose=0)
    assert abs(net.dense.kernel.numpy() - before).max() > 0
    assert athe_tf.export(wrapped, tmp_path / "out")["num_classes"] == 4
    np.testing.assert_allclose(athe_tf.victim(tmp_path / "out").logits(X), wrapped(X), rtol=1e-5, atol=1e-6)


def test_a_model_with_two_outputs_is_refused():
    inputs = keras.Input((8, 8, 1))
    flat = keras.layers.Flatten()(inputs)
    net = keras.Model(inputs, [keras.layers.Dense(4)(flat), keras.layers.Dense(4)(flat)])
    with pytest.raises(InputError, match="one input and one vector of logits"):
        PGDAT(net, "pgd-1", epsilon=0.1)


def test_a_softmax_is_refused_with_its_remedy():
    inputs = keras.Input((8, 8, 1))
    net = keras.Model(inputs, keras.layers.Dense(4, "softmax")(keras.layers.Flatten()(inputs)))
    with pytest.raises(InputError, match=r"athe_tf.models.to_logits\(net\)"):
        PGDAT(net, "pgd-1", epsilon=0.1)
    PGDAT(athe_tf.models.to_logits(net), "pgd-1", epsilon=0.1)
