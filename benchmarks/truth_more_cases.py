"""More situations of `benchmarks/truth.py`: the same kinds as in `truth_cases`, by other routes."""

import functools
import pathlib
import tempfile
import types

import athe_tf  # before keras

import keras  # isort: skip
import numpy as np
import tensorflow as tf

from benchmarks.truth import EPSILON, Subject
from benchmarks.truth_cases import (
    Trap,
    _bad,
    case,
    clone,
    healthy,
    measured_before,
    same_weights,
    small_net,
    trained,
    training_case,
)


def renamed(net, name):
    """A copy of a network under another name."""
    other = clone(net)
    other.name = name
    return other


# Nothing is wrong


@healthy("classes that do not exist are masked by a large negative logit")
def _(world):
    unused = tf.constant([[0.0] * 10 + [-1e4] * 2])
    return Subject(lambda x: tf.concat([world.net(x), tf.zeros([tf.shape(x)[0], 2])], 1) + unused)


@healthy("a compiled function")
def _(world):
    return Subject(tf.function(lambda x: world.net(x, training=False)))


@healthy("logits in float64")
def _(world):
    return Subject(lambda x: tf.cast(world.net(x), tf.float64))


# A model that has changed since it was measured, by other doors


@case("call of a functional model replaced")
def _(world):
    net = measured_before(world, clone(world.net))
    plain = net.call
    net.call = lambda x, training=None, mask=None: -plain(x)
    return Subject(net)


@case("call of a nested model replaced")
def _(world):
    inner = clone(world.net)
    net = keras.Sequential([keras.Input((8, 8, 1)), inner])
    measured_before(world, net)
    plain = inner.call
    inner.call = lambda x, training=None, mask=None: -plain(x)
    return Subject(net)


@case("__call__ of a class replaced")
def _(world):
    class Net(tf.Module):
        def __call__(self, x):
            return world.net(x)

    net = measured_before(world, Net())
    Net.__call__ = lambda self, x: -world.net(x)
    return Subject(net)


@case("attribute of a layer in a nested model changed")
def _(world):
    layer = keras.layers.Rescaling(1.0)
    inner = keras.Sequential([keras.Input((10,)), layer])
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), inner])
    measured_before(world, net)
    layer.scale = -1.0
    return Subject(net)


@case("layer added to a nested sequential model")
def _(world):
    inner = keras.Sequential([keras.Input((10,)), keras.layers.Rescaling(1.0)])
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), inner])
    measured_before(world, net)
    inner.add(keras.layers.Rescaling(-1.0))
    return Subject(net)


@case("negative slope of a ReLU changed")
def _(world):
    layer = keras.layers.ReLU()
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), layer])
    measured_before(world, net)
    layer.negative_slope = -1.0
    return Subject(net)


@case("use_bias of a layer switched off")
def _(world):
    net = clone(world.net)
    net.layers[-1].bias.assign([0.0] * 9 + [1e3])
    measured_before(world, net)
    net.layers[-1].use_bias = False
    return Subject(net)


@case("dtype policy of a layer changed")
def _(world):
    net = measured_before(world, clone(world.net))
    for layer in net.layers[1:]:
        layer.dtype_policy = keras.DTypePolicy("mixed_float16")
    return Subject(net)


@case("function of a Lambda layer replaced")
def _(world):
    layer = keras.layers.Lambda(lambda z: z)
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), layer])
    measured_before(world, net)
    layer.function = lambda z: -z
    return Subject(net)


@case("an activation with a state that changed")
def _(world):
    class Sign:
        value = 1.0

        def __call__(self, z):
            return self.value * z

    sign = Sign()
    net = clone(world.net)
    net.layers[-1].activation = sign
    measured_before(world, net)
    sign.value = -1.0
    return Subject(net)


@case("a quantized model")
def _(world):
    net = measured_before(world, clone(world.net))
    net.layers[-1].kernel.assign(-net.layers[-1].kernel)
    net.layers[-1].quantize("int8")
    return Subject(net)


@case("a function with attributes of its own that changed")
def _(world):
    def f(x):
        return f.sign * world.net(x)

    f.sign = 1.0
    measured_before(world, f)
    f.sign = -1.0
    return Subject(f)


@case("a bound method moved to another object")
def _(world):
    class Net:
        def __init__(self, sign):
            self.sign = sign

        def logits(self, x):
            return self.sign * world.net(x)

    one, other = Net(1.0), Net(-1.0)
    measured_before(world, one.logits)
    one.logits = types.MethodType(Net.logits, other)
    return Subject(one.logits)


@case("a global that a singledispatch function reads changed")
def _(world):
    signs = {"sign": 1.0}

    @functools.singledispatch
    def f(x):
        return signs["sign"] * world.net(x)

    measured_before(world, f)
    signs["sign"] = -1.0
    return Subject(f)


@case("a .keras file that was replaced")
def _(world):
    path = pathlib.Path(tempfile.mkdtemp()) / "net.keras"
    world.net.save(path)
    measured_before(world, str(path))
    _bad(world).save(path)
    return Subject(str(path), true=_bad(world), run=False)


@case("a SavedModel that was replaced")
def _(world):
    folder = pathlib.Path(tempfile.mkdtemp()) / "export"
    athe_tf.export(clone(world.net), folder)
    measured_before(world, str(folder))
    athe_tf.export(_bad(world), folder, replace=True)
    return Subject(str(folder), true=_bad(world), run=False)


@case("a victim whose Keras model changed", says="changed|victim")
def _(world):
    net = clone(world.net)
    net.layers[-1].activation = keras.activations.linear
    victim = measured_before(world, athe_tf.victim(net))
    net.layers[-1].activation = keras.activations.softplus
    net.layers[-1].activation = lambda z: -z
    return Subject(victim, true=net)


@case("a committee of Keras models, one replaced")
def _(world):
    nets = [renamed(world.net, "one"), renamed(world.net, "other")]
    inputs = keras.Input((8, 8, 1))
    whole = keras.Model(inputs, keras.layers.Average()([net(inputs) for net in nets]))
    measured_before(world, whole)
    for net in nets:
        net.layers[-1].kernel.assign(-net.layers[-1].kernel)
    return Subject(whole)


# Gradients, by other routes


@case("a square root of pixels")
def _(world):
    return Subject(lambda x: world.net(tf.sqrt(x) ** 2), twin=world.net)


@case("a norm that is zero", says="finite")
def _(world):
    def net(x):
        spread = x - tf.stop_gradient(x)
        return world.net(x) + tf.norm(tf.reshape(spread, [-1, 64]), axis=1)[:, None]

    return Subject(net, twin=world.net)


@case("dark images divided by zero in a branch", says="finite")
def _(world):
    def net(x):
        total = tf.reduce_sum(x, [1, 2, 3], keepdims=True)
        return world.net(tf.where(total > 12.0, x, x * (total / tf.where(total > 12.0, 0.0, total))))

    return Subject(net, twin=world.net)


@case("saturated activations", says="zero|masked|strong enough|black box")
def _(world):
    def net(x):
        return world.net(0.5 + 0.5 * tf.tanh(500 * (x - 0.5)))

    return Subject(net)


@case("a step function", says="zero|gradient")
def _(world):
    return Subject(lambda x: world.net(tf.cast(x > 0.4, tf.float32) + 0 * x))


@case("a numpy_function without a gradient", says="gradient")
def _(world):
    def net(x):
        found = tf.numpy_function(lambda z: world.net(z).numpy(), [x], tf.float32)
        return tf.ensure_shape(found, [None, 10])

    return Subject(net, true=world.net)


@case("a cast to integers", says="gradient")
def _(world):
    return Subject(lambda x: world.net(tf.cast(tf.cast(255 * x, tf.uint8), tf.float32) / 255), twin=world.net)


@case("gradients that overflow float16", says="finite|zero|scale|margin")
def _(world):
    @tf.custom_gradient
    def half(z):
        return z, lambda slope: tf.cast(tf.cast(slope * 1e9, tf.float16), tf.float32)

    return Subject(lambda x: world.net(half(x)), twin=world.net)


@case("gradients that underflow float16", says="zero")
def _(world):
    @tf.custom_gradient
    def half(z):
        return z, lambda slope: tf.cast(tf.cast(slope * 1e-12, tf.float16), tf.float32)

    return Subject(lambda x: world.net(half(x)), twin=world.net)


@case("gradients that are NaN for one class", says="finite")
def _(world):
    def net(x):
        logits = world.net(x)
        rare = tf.argmax(logits, 1)[:, None] < 3
        bad = tf.where(rare, tf.where(logits < 1e9, logits, logits * np.nan), logits)
        return bad

    return Subject(net, twin=world.net)


@case("clipped logits", says="zero|saturated|strong enough|huge")
def _(world):
    return Subject(lambda x: tf.clip_by_value(world.net(x), -2.0, 2.0), twin=world.net)


@case("ranks instead of logits", says="zero|gradient")
def _(world):
    def net(x):
        logits = world.net(x)
        order = tf.argsort(tf.argsort(logits, axis=1), axis=1)
        return tf.cast(order, tf.float32) + 0 * logits

    return Subject(net, twin=world.net)


def _trapped(world):
    return lambda x: world.net(tf.where(x < 1e9, x, x * np.nan))


for _name in ("mim-10", "apgd-t", "fab", "deepfool", "cr", "epsilon-search", "autoattack"):

    @case(f"NaN gradients under {_name}", says="finite")
    def _(world, name=_name):
        return Subject(_trapped(world), twin=world.net, options={"attacks": [name]})


for _name in ("ddn", "cw-l2"):

    @case(f"NaN gradients under {_name} in l2", says="finite")
    def _(world, name=_name):
        options = {"attacks": [name], "norm": "l2", "epsilon": 0.5}
        return Subject(_trapped(world), twin=world.net, options=options, reference=0.5)


# Logits that are not numbers


@case("minus infinity for classes that do not exist", says="NaN|finite")
def _(world):
    def net(x):
        return tf.concat([world.net(x), tf.fill([tf.shape(x)[0], 2], -np.inf)], 1)

    return Subject(net, true=world.net)


@case("NaN only for images that were moved", says="NaN|finite")
def _(world):
    clean = tf.constant(world.x.reshape(48, -1))

    def net(x):
        gap = tf.reduce_min(tf.reduce_max(tf.abs(tf.reshape(x, [-1, 1, 64]) - clean[None]), 2), 1)
        return tf.where((gap > 0.09)[:, None], tf.constant(np.nan), world.net(x))

    return Subject(net, twin=world.net)


@case("NaN for one wrong class only", says="NaN|finite")
def _(world):
    def net(x):
        odd = tf.reduce_mean(x, [1, 2, 3]) < 0.27
        column = tf.one_hot(3, 10)[None] * tf.where(odd, np.float32(np.nan), 0.0)[:, None]
        return world.net(x) + tf.where(tf.one_hot(3, 10)[None] > 0, column, 0.0)

    return Subject(net, twin=world.net)


# Chance


@case("dropout in training mode, by the model itself", says="randomized", random=True)
def _(world):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner, self.drop = clone(world.net), keras.layers.Dropout(0.4)

        def call(self, x):
            return self.inner(self.drop(x, training=True))

    return Subject(Own(), twin=world.net)


@case("a counter that changes the logits", says="randomized", random=True)
def _(world):
    count = tf.Variable(0.0)

    def net(x):
        count.assign_add(1.0)
        return world.net(tf.roll(x, tf.cast(count % 3, tf.int32), axis=2))

    return Subject(net)


@case("a seed made of the image")
def _(world):
    def net(x):
        total = tf.cast(1e6 * tf.reduce_sum(x), tf.int32)
        return world.net(x + 0 * tf.random.stateless_normal(tf.shape(x), [0, total]))

    return Subject(net)


@case("a seed made of the batch", says="batch|randomized|alone", random=True)
def _(world):
    def net(x):
        total = tf.cast(1e3 * tf.reduce_sum(x), tf.int32)
        return world.net(x + 0.3 * tf.random.stateless_normal(tf.shape(x), [0, total]))

    return Subject(net, twin=world.net)


# Outputs and inputs


@case("a named tuple of outputs", says="one tensor|several outputs")
def _(world):
    import collections

    pair = collections.namedtuple("pair", "logits features")
    return Subject(lambda x: pair(world.net(x), x), true=world.net)


@case("a Keras model of two outputs", says="one tensor|several outputs")
def _(world):
    inputs = keras.Input((8, 8, 1))
    return Subject(keras.Model(inputs, [world.net(inputs), inputs]), true=world.net)


@case("a Keras model of two inputs", says="input")
def _(world):
    one, other = keras.Input((8, 8, 1)), keras.Input((8, 8, 1))
    return Subject(keras.Model([one, other], world.net(one + other)), true=world.net)


@case("a map of logits per pixel", says="one row of logits|shape")
def _(world):
    return Subject(lambda x: tf.tile(world.net(x)[:, None, None], [1, 2, 2, 1]), true=world.net)


@case("a NumPy function", says="NumPy|tensor|symbolic|gradient")
def _(world):
    return Subject(lambda x: world.net.predict(np.asarray(x), verbose=0), true=world.net)


@case("integer logits", says="gradient|integer")
def _(world):
    return Subject(lambda x: tf.cast(tf.round(100 * world.net(x)), tf.int32), twin=world.net)


@case("softmax with a temperature", says="softmax|probabilities")
def _(world):
    return Subject(lambda x: tf.nn.softmax(world.net(x) / 20), twin=world.net)


@case("probabilities in percent", says="softmax|probabilities|saturated|margin|zero|strong")
def _(world):
    return Subject(lambda x: 100 * tf.nn.softmax(5 * world.net(x)), twin=world.net)


@case("softmax inside an ensemble", says="softmax|probabilities")
def _(world):
    inputs = keras.Input((8, 8, 1))
    soft = [keras.layers.Softmax()(net(inputs)) for net in (world.net, renamed(world.net, "other"))]
    return Subject(keras.Model(inputs, keras.layers.Average()(soft)), twin=world.net)


for _dtype in ("int32", "bool"):

    @case(f"an integer input ({_dtype})", says="integer|uint16|int32|int64|bool")
    def _(world, dtype=_dtype):
        inputs = keras.Input((8, 8, 1), dtype=dtype)
        net = keras.Model(inputs, world.net(keras.layers.Rescaling(1 / 255.0)(inputs)))
        return Subject(net, true=lambda x: world.net(tf.round(255 * x) / 255), twin=world.net)


@case("an integer input of a subclassed model", says="gradient|integer|uint8")
def _(world):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = clone(world.net)

        def call(self, x):
            return self.inner(tf.cast(tf.cast(x * 255, tf.uint8), tf.float32) / 255)

    return Subject(Own(), twin=world.net)


@case("a SavedModel of integers", says="integer|uint8")
def _(world):
    folder = pathlib.Path(tempfile.mkdtemp()) / "export"
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    keras.Model(inputs, world.net(keras.layers.Rescaling(1 / 255.0)(inputs))).export(folder, verbose=False)
    return Subject(str(folder), true=world.net, run=False)


@case("a .keras file of integers", says="integer|uint8")
def _(world):
    path = pathlib.Path(tempfile.mkdtemp()) / "net.keras"
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    keras.Model(inputs, world.net(keras.layers.Rescaling(1 / 255.0)(inputs))).save(path)
    return Subject(str(path), true=world.net, run=False)


@case("images without channels", says="shape|channels")
def _(world):
    return Subject(world.net, data=(world.x[..., 0], world.y))


@case("images of int32 with only 0 and 1", says="dtype|integers|0, 1|255")
def _(world):
    return Subject(
        world.net,
        data=((world.x > 2).astype("int32"), world.y),
        truth=((world.x > 2).astype("float32"), world.y),
    )


@case("images of uint8", says="255")
def _(world):
    return Subject(
        world.net,
        data=(np.rint(255 * world.x).astype("uint8"), world.y),
        truth=(np.rint(255 * world.x).astype("float32") / 255, world.y),
    )


@case("lists of images")
def _(world):
    return Subject(world.net, data=(world.x.tolist(), world.y.tolist()))


@case("one-hot labels", says="Labels|labels")
def _(world):
    return Subject(world.net, data=(world.x, np.eye(10)[world.y]))


@case("labels from 1 to 10", says="Labels|labels")
def _(world):
    return Subject(world.net, data=(world.x, world.y + 1))


@case("fewer labels than images", says="Labels|labels")
def _(world):
    return Subject(world.net, data=(world.x, world.y[:-1]))


@case("tf.data with sample weights", says="image, label|element")
def _(world):
    return Subject(
        world.net,
        data=tf.data.Dataset.from_tensor_slices((world.x, world.y, np.ones(48))).batch(16),
        truth=(world.x, world.y),
    )


@case("tf.data of ragged images", says="image, label|one size|ragged|Ragged")
def _(world):
    ragged = tf.ragged.constant([[[[0.5]] * n] * 8 for n in (7, 8)], ragged_rank=2)
    return Subject(world.net, data=tf.data.Dataset.from_tensor_slices((ragged, world.y[:2])))


@case("tf.data of images of two sizes", says="one size")
def _(world):
    def make():
        for n in (8, 7):
            yield np.zeros([n, 8, 1], "float32"), 0

    spec = (tf.TensorSpec([None, 8, 1]), tf.TensorSpec([], tf.int32))
    return Subject(world.net, data=tf.data.Dataset.from_generator(make, output_signature=spec))


@case("tf.data that repeats without an end", says="end|infinite|max_examples")
def _(world):
    return Subject(world.net, data=tf.data.Dataset.from_tensor_slices((world.x, world.y)).batch(16).repeat())


@case("tf.data of unknown shapes")
def _(world):
    def make():
        yield from zip(world.x, world.y, strict=True)

    data = tf.data.Dataset.from_generator(make, (tf.float32, tf.int32))
    return Subject(world.net, data=data, truth=(world.x, world.y))


@case("tf.data of unknown shapes in batches")
def _(world):
    def make():
        for i in range(0, 48, 16):
            yield world.x[i : i + 16], world.y[i : i + 16]

    data = tf.data.Dataset.from_generator(make, (tf.float32, tf.int32))
    return Subject(world.net, data=data, truth=(world.x, world.y))


@case("tf.data of int32 from 0 to 255", says="255|dtype|lie in")
def _(world):
    levels = np.rint(255 * world.x).astype("int32")
    return Subject(world.net, data=tf.data.Dataset.from_tensor_slices((levels, world.y)).batch(20))


@case("tf.data of labels [N, 1]")
def _(world):
    return Subject(
        world.net,
        data=tf.data.Dataset.from_tensor_slices((world.x, world.y[:, None])).batch(20),
        truth=(world.x, world.y),
    )


@case("tf.data that shuffles anew in every pass")
def _(world):
    data = tf.data.Dataset.from_tensor_slices((world.x, world.y)).shuffle(48).batch(16)
    return Subject(world.net, data=data, truth=(world.x, world.y))


@case("an empty tf.data", says="no images|empty")
def _(world):
    return Subject(world.net, data=tf.data.Dataset.from_tensor_slices((world.x, world.y)).take(0))


@case("a generator", says="Dataset")
def _(world):
    return Subject(world.net, data=((a, b) for a, b in zip(world.x, world.y, strict=True)))


@case("a keras.utils.PyDataset", says="Dataset")
def _(world):
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return world.x[16 * i : 16 * i + 16], world.y[16 * i : 16 * i + 16]

    return Subject(world.net, data=Batches())


# Settings


@case("an attack that was changed after its first run", says="cannot change")
def _(world):
    attack = athe_tf.attacks.get("cw-linf-40", epsilon=EPSILON)
    attack.steps = 0
    attack.run(world.net, world.x, world.y)
    athe_tf.evaluate(world.net, world.x, world.y, attacks=[attack], epsilon=EPSILON, checks=False)
    attack.steps = 40
    return Subject(world.net, options={"attacks": [attack]})


@case("an attack without steps", says="strong enough|noise", needs_checks=True)
def _(world):
    return Subject(world.net, options={"attacks": ["pgd-0"]})


@case("a step size that is NaN", says="step_size")
def _(world):
    return Subject(
        world.net, options={"attacks": [athe_tf.attacks.PGD(EPSILON, steps=20, step_size=float("nan"))]}
    )


@case("a step size of zero", says="step_size")
def _(world):
    return Subject(world.net, options={"attacks": [athe_tf.attacks.PGD(EPSILON, steps=20, step_size=0.0)]})


# Training


@training_case("class weights in a list-like order with labels [N, 1]")
def _(world):
    share = {i: 0.5 + 0.1 * i for i in range(10)}

    def fit(net, column, **more):
        trainer = athe_tf.training.PGDAT(net, athe_tf.attacks.PGD(EPSILON, steps=1))
        trainer.compile(keras.optimizers.SGD(0.1))
        x, y = (part[:96] for part in world.train)
        trainer.fit(x, y[:, None] if column else y, batch_size=32, shuffle=False, verbose=0, **more)
        return net

    one, other = fit(small_net(), True, class_weight=share), fit(small_net(), False, class_weight=share)
    return same_weights(one, other) or "weights differ"


@training_case("sample weights of validation data in a column")
def _(world):
    def measure(weights):
        trainer = athe_tf.training.PGDAT(small_net(), athe_tf.attacks.PGD(EPSILON, steps=1))
        trainer.compile(keras.optimizers.SGD(0.1))
        x, y = (part[:64] for part in world.train)
        validation = (world.x, world.y, weights)
        history = trainer.fit(x, y, batch_size=32, shuffle=False, verbose=0, validation_data=validation)
        return [
            history.history[name][-1] for name in ("val_loss", "val_clean_accuracy", "val_robust_accuracy")
        ]

    weights = np.arange(48).astype("float32")
    return np.allclose(measure(weights), measure(weights[:, None]), atol=1e-6) or "validation differs"


@training_case("sample weights of integers")
def _(world):
    weights = np.random.default_rng(0).integers(0, 3, 320)
    one, other = small_net(), small_net()
    trained(world, one, sample_weight=weights)
    trained(world, other, sample_weight=weights.astype("float32"))
    return same_weights(one, other) or "weights differ"


@training_case("sample weights of shape [N, 2]", says="weight")
def _(world):
    trained(world, small_net(), sample_weight=np.ones([320, 2], "float32"))
    return "accepted"


@training_case("sample weights that are NaN", says="weight")
def _(world):
    weights = np.ones(320, "float32")
    weights[100] = np.nan
    trained(world, small_net(), sample_weight=weights)
    return "accepted"


@training_case("negative class weights", says="weight")
def _(world):
    trained(world, small_net(), class_weight={i: -1.0 if i == 3 else 1.0 for i in range(10)})
    return "accepted"


@training_case("a layer that draws by tf.random", says="random")
def _(world):
    class Noise(keras.layers.Layer):
        def call(self, x, training=False):
            return tf.roll(x, tf.random.uniform([], 0, 3, tf.int32), axis=2) if training else x

    trained(world, small_net(Noise()))
    return "accepted"


@training_case("a layer that draws by tf.image", says="random")
def _(world):
    class Flip(keras.layers.Layer):
        def call(self, x, training=False):
            return tf.image.random_flip_left_right(x) if training else x

    trained(world, small_net(Flip()))
    return "accepted"


@training_case("a layer that draws by tf.random.Generator", says="random")
def _(world):
    class Noise(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.source = tf.random.Generator.from_seed(0)

        def call(self, x, training=False):
            return x + 0.3 * self.source.normal(tf.shape(x)) if training else x

    trained(world, small_net(Noise()))
    return "accepted"


@training_case("a random layer inside a subclassed layer", says="random")
def _(world):
    class Block(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.conv, self.move = keras.layers.Conv2D(4, 3), keras.layers.RandomTranslation(0.2, 0.2)

        def call(self, x, training=False):
            return self.move(self.conv(x), training=training)

    trained(world, small_net(Block()))
    return "accepted"


@training_case("Gaussian noise in the middle", says="random")
def _(world):
    trained(world, small_net(keras.layers.Rescaling(1.0), keras.layers.GaussianNoise(0.3)))
    return "accepted"


@training_case("a pipeline of random layers at the front")
def _(world):
    front = keras.layers.Pipeline([keras.layers.RandomFlip(), keras.layers.RandomTranslation(0.1, 0.1)])
    trained(world, small_net(front))
    return True


@training_case("LLR with NaN input gradients", says="finite|gradient")
def _(world):
    trainer = athe_tf.training.LLR(small_net(Trap()), athe_tf.attacks.PGD(EPSILON, steps=2))
    trainer.compile(keras.optimizers.SGD(0.1))
    x, y = (part[:64] for part in world.train)
    trainer.fit(x, y, batch_size=32, verbose=0)
    return "accepted"


for _name in ("deepfool", "fab", "multitargeted"):

    @training_case(f"NaN input gradients under a training attack {_name}", says="input gradient|finite")
    def _(world, name=_name):
        norm = "l2" if name == "ddn" else "linf"
        trainer = athe_tf.training.PGDAT(small_net(Trap()), name, epsilon=EPSILON, norm=norm)
        trainer.compile(keras.optimizers.SGD(0.1))
        x, y = (part[:64] for part in world.train)
        trainer.fit(x, y, batch_size=32, verbose=0)
        return "accepted"
