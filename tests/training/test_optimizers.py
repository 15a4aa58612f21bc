"""TorchSGD against sequences computed by hand, and the schedules against their formulas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from athe_tf.training.optimizers import TorchSGD
from athe_tf.training.schedules import Cosine, Cyclic, Piecewise, make_schedule
from athe_tf.utils.errors import InputError

GRADIENTS = [0.5, -0.2, 0.1, 0.3]


def run(optimizer, gradients=GRADIENTS, start=1.0):
    variable = keras.Variable(np.array([start], "float32"))
    values = []
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant([gradient]), variable)])
        values.append(float(variable.numpy()[0]))
    return values


def pytorch_sequence(rates, momentum, decay, nesterov=False, start=1.0):
    """The update rule of torch.optim.SGD, written out."""
    w, v, values = start, 0.0, []
    for gradient, rate in zip(GRADIENTS, rates, strict=True):
        g = gradient + decay * w
        v = momentum * v + g
        w -= rate * (g + momentum * v if nesterov else v)
        values.append(w)
    return values


@pytest.mark.parametrize("nesterov", [False, True])
def test_equals_pytorch_across_a_drop_of_the_rate_with_coupled_decay(nesterov):
    schedule = Piecewise(0.1, [2], 0.1)
    ours = run(TorchSGD(schedule, 0.9, 0.05, nesterov))
    np.testing.assert_allclose(ours, pytorch_sequence([0.1, 0.1, 0.01, 0.01], 0.9, 0.05, nesterov), rtol=1e-6)


def test_differs_from_keras_after_a_drop_because_keras_keeps_the_rate_in_the_velocity():
    w, v = 1.0, 0.0
    for gradient, rate in zip(GRADIENTS, [0.1, 0.1, 0.01, 0.01], strict=True):
        v = 0.9 * v - rate * gradient
        w += v
    schedule = Piecewise(0.1, [2], 0.1)
    np.testing.assert_allclose(run(keras.optimizers.SGD(schedule, 0.9))[-1], w, rtol=1e-6)
    assert abs(run(TorchSGD(schedule, 0.9))[-1] - w) > 1e-3


def test_excluded_variables_do_not_decay():
    optimizer = TorchSGD(0.1, 0.9, 0.5)
    kernel, bias = (keras.Variable(np.ones(1, "float32"), name=n) for n in ("kernel", "bias"))
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.apply_gradients([(tf.zeros(1), kernel), (tf.zeros(1), bias)])
    np.testing.assert_allclose([kernel.numpy()[0], bias.numpy()[0]], [0.95, 1.0], rtol=1e-6)


def test_round_trips_through_its_config():
    optimizer = TorchSGD(Cosine(0.1, 100), 0.8, 1e-3, nesterov=True)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again, TorchSGD) and again.get_config() == optimizer.get_config()


@pytest.mark.parametrize("kwargs", [{"momentum": 1.0}, {"weight_decay": -1.0}])
def test_impossible_arguments_are_refused(kwargs):
    with pytest.raises(InputError, match=next(iter(kwargs))):
        TorchSGD(**kwargs)


def test_piecewise_drops_at_the_step_after_whole_epochs():
    schedule = make_schedule("piecewise", 0.1, 10, 20, (3, 5), 0.1)
    assert isinstance(schedule, Piecewise)
    values = [float(schedule(step)) for step in (0, 29, 30, 49, 50, 199)]
    np.testing.assert_allclose(values, [0.1, 0.1, 0.01, 0.01, 0.001, 0.001], rtol=1e-6)


def test_cosine_and_cyclic_match_their_closed_forms():
    steps = np.arange(0, 101, 10)
    cosine = [float(Cosine(0.2, 100)(s)) for s in steps]
    np.testing.assert_allclose(cosine, 0.1 * (1 + np.cos(np.pi * steps / 100)), atol=1e-7)
    triangle = [float(Cyclic(0.2, 100)(s)) for s in steps]
    np.testing.assert_allclose(triangle, 0.2 * (1 - abs(steps - 50) / 50), atol=1e-7)
    assert float(Cyclic(0.2, 100)(50)) == pytest.approx(0.2)


def test_multistep_is_piecewise_and_constant_is_a_number():
    assert isinstance(make_schedule("multistep", 0.1, 10, 20, (3,), 0.1), Piecewise)
    assert make_schedule("constant", 0.1, 10, 20, (3,), 0.1) == 0.1


def test_drops_out_of_order_are_refused():
    with pytest.raises(InputError, match="rising order"):
        Piecewise(0.1, [5, 3])
