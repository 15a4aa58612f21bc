"""What identifies a model: its architecture and every weight, and not the names that Keras counts."""

import keras
import numpy as np
import pytest

import athe_tf
from athe_tf.attacks import PGD
from athe_tf.models.digest import keras_digest
from athe_tf.utils.errors import InputError
from tests.linear_case import gray_images, linear_model, predictions

IMAGES = gray_images(8)


def small_net(activation="relu", rate=0.0, seed=0, dtype=None):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([
        keras.Input((4, 5, 2)),
        keras.layers.Conv2D(3, 3, activation=activation, dtype=dtype),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(rate),
        keras.layers.Flatten(),
        keras.layers.Dense(5),
    ])  # fmt: skip


def test_the_same_model_made_twice_or_loaded_is_the_same(tmp_path):
    first, second = small_net(), small_net()
    assert first.layers[0].name != second.layers[0].name
    first.save(tmp_path / "net.keras")
    first.compile("sgd", "mse")
    loaded = athe_tf.load_model(tmp_path / "net.keras")
    assert keras_digest(first) == keras_digest(second) == keras_digest(loaded)


def test_everything_that_changes_the_outputs_changes_the_digest():
    nets = [
        small_net(),
        small_net("tanh"),
        small_net(rate=0.5),
        small_net(seed=1),
        small_net(dtype="float16"),
    ]
    for name in ("moving_mean", "bias"):  # the smallest change of one value
        nets.append(small_net())
        variable = next(v for v in nets[-1].weights if v.name == name)
        value = variable.numpy()
        value[0] = np.nextafter(value[0], np.float32(1))
        variable.assign(value)
    digests = [keras_digest(net) for net in nets]
    assert None not in digests and len(set(digests)) == len(nets)


class Scaled(keras.layers.Layer):
    """A layer from elsewhere that keeps an array outside its config."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.table = np.full(3, factor)

    def call(self, x):
        return x * self.table[0]

    def get_config(self):
        return {"name": self.name}


def with_layer(layer):
    return keras.Sequential([keras.Input((4, 5, 2)), layer, keras.layers.Flatten()])


def test_arrays_of_layers_from_elsewhere_count():
    assert keras_digest(with_layer(Scaled(1.0))) == keras_digest(with_layer(Scaled(1.0)))
    assert keras_digest(with_layer(Scaled(1.0))) != keras_digest(with_layer(Scaled(2.0)))


SIGNS = {"of all": 1.0}


def signed(x):
    return SIGNS["of all"] * x


class Inside(keras.layers.Layer):
    """A layer of Keras, and values that its config does not have, in one from elsewhere."""

    shared = 1.0

    def __init__(self):
        super().__init__()
        self.inner, self._private, self.nested = keras.layers.Rescaling(1.0), 1.0, {"a": [1.0]}

    def call(self, x):
        return signed(self.shared * self._private * self.nested["a"][0] * self.inner(x))


def test_values_that_the_code_of_a_layer_reads_count(monkeypatch):
    layer, kept = Inside(), None
    net = with_layer(layer)
    digests = [keras_digest(net)]
    for where, name in ((layer.inner, "scale"), (layer, "_private"), (Inside, "shared")):
        monkeypatch.setattr(where, name, -1.0)
        digests.append(keras_digest(net))
    for values, name in ((layer.nested["a"], 0), (SIGNS, "of all")):
        kept, values[name] = values[name], -1.0
        digests.append(keras_digest(net))
        values[name] = kept
    assert None not in digests and len(set(digests)) == len(digests)
    layer.nested["a"] = object()  # what it does is not known
    assert keras_digest(net) is None


class WithoutConfig(keras.layers.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.Lambda(lambda x: 2 * x),
        lambda: keras.layers.Activation(lambda x: 2 * x),
        lambda: WithoutConfig(lambda x: 2 * x),
    ],
)
def test_python_code_has_no_digest(layer):
    assert keras_digest(with_layer(layer())) is None


def test_a_saved_model_is_identified_by_its_files(tmp_path):
    net = small_net()
    athe_tf.export(net, tmp_path / "a")
    digest = athe_tf.victim(tmp_path / "a").digest()
    (tmp_path / "a" / "evaluation").mkdir()
    (tmp_path / "a" / "evaluation" / "evaluation.json").write_text("{}")
    assert athe_tf.victim(tmp_path / "a").digest() == digest
    card = tmp_path / "a" / "athe_tf.json"
    card.write_text(card.read_text().replace('"scale": null', '"scale": 2.0'))
    assert athe_tf.victim(tmp_path / "a").digest() != digest


def test_a_function_is_attacked_but_not_resumed_and_the_user_is_told(tmp_path):
    model, state = linear_model(), tmp_path / "state.npz"
    y = predictions(model, IMAGES)
    with pytest.warns(
        UserWarning, match="'named' contains Python code.* cannot be resumed. Use a .keras file"
    ):

        def named(x):
            return model(x)

        found = PGD(epsilon=0.03, steps=2).run(named, IMAGES, y, state=state)
    expected = PGD(epsilon=0.03, steps=2).run(model, IMAGES, y, state=state)
    np.testing.assert_array_equal(found.success, expected.success)


class Noisy(keras.layers.Layer):
    """Noise in inference too."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x), stddev=1e-3)


def test_a_randomized_model_is_identified_by_its_weights(tmp_path):
    def noisy(seed):
        inner = linear_model(seed=seed)
        return keras.Sequential([keras.Input((4, 5, 2)), Noisy(), inner])

    attack, y, state = PGD(epsilon=0.03, steps=2), predictions(linear_model(), IMAGES), tmp_path / "a.npz"
    attack.run(noisy(0), IMAGES, y, state=state)
    attack.run(noisy(0), IMAGES, y, state=state)
    with pytest.raises(InputError, match="belongs to another evaluation. Received: model="):
        attack.run(noisy(1), IMAGES, y, state=state)
