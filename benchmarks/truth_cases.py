"""The situations of `benchmarks/truth.py`, and what must be said where the number is not right."""

import copy
import functools
import pathlib
import re
import tempfile
import warnings

import athe_tf  # before keras

import keras  # isort: skip
import numpy as np
import tensorflow as tf

from athe_tf.utils.errors import InputError
from benchmarks.truth import EPSILON, REFUSED, RIGHT, SILENT, WARNED, Case, Subject, World, reference

CASES: list[Case] = []


def case(name: str, says: str = "", **settings):
    """Adds a situation; the decorated function makes it."""

    def added(make):
        CASES.append(Case(name, make, says, **settings))
        return make

    return added


def healthy(name: str):
    """Adds a model with which nothing is wrong."""
    return case(f"healthy: {name}", healthy=True)


def measured_before(world: World, model, **options):
    """Evaluates once, so that whatever is kept about a model is kept."""
    athe_tf.evaluate(model, world.x, world.y, attacks=["fgsm"], epsilon=EPSILON, checks=False, **options)
    return model


def clone(net: keras.Model) -> keras.Model:
    """A network with the same weights that nothing else refers to."""
    other = keras.models.clone_model(net)
    other.set_weights(net.get_weights())
    return other


# Nothing is wrong


@healthy("a functional model")
def _(world):
    return Subject(clone(world.net))


@healthy("a function")
def _(world):
    return Subject(lambda x: world.net(x, training=False))


@healthy("a victim")
def _(world):
    return Subject(athe_tf.victim(world.net), true=world.net)


@healthy("a cosine head")
def _(world):
    return Subject(world.network(athe_tf.CosineDense(10, scale=15.0, name="head")))


@healthy("an angular head")
def _(world):
    return Subject(world.network(athe_tf.CosineDense(10, scale=15.0, angular=True, name="head")))


@healthy("a subclassed model")
def _(world):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = clone(world.net)

        def call(self, x):
            return self.inner(x)

    return Subject(Own())


@healthy("a sequential model with dropout and batch normalization")
def _(world):
    keras.utils.set_random_seed(1)
    net = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.Adam(3e-3), loss=loss)
    net.fit(*world.train, batch_size=64, epochs=6, verbose=0)
    return Subject(net)


@healthy("a .keras file")
def _(world):
    path = pathlib.Path(tempfile.mkdtemp()) / "net.keras"
    world.net.save(path)
    return Subject(str(path), true=world.net, run=False)


@healthy("a SavedModel")
def _(world):
    folder = pathlib.Path(tempfile.mkdtemp()) / "export"
    athe_tf.export(clone(world.net), folder)
    return Subject(str(folder), true=world.net, run=False)


@healthy("a model of float16 activations")
def _(world):
    return Subject(lambda x: tf.cast(world.net(tf.cast(x, tf.float16)), tf.float32))


@healthy("logits with an offset")
def _(world):
    return Subject(lambda x: world.net(x) + 5.0)


@healthy("a random layer at the front, in inference mode")
def _(world):
    net = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.RandomFlip(), clone(world.net)])
    # Called without `training`, the layer itself flips images.
    return Subject(net, true=lambda x: net(x, training=False))


# A model that has changed since it was measured


@case("wrapper of a function (functools.wraps)")
def _(world):
    def f(x):
        return world.net(x)

    measured_before(world, f)

    @functools.wraps(f)
    def g(x):
        return -f(x)

    return Subject(g)


@case("copy of __dict__ by a decorator")
def _(world):
    def f(x):
        return world.net(x)

    measured_before(world, f)

    def g(x):
        return tf.reverse(f(x), [1])

    g.__dict__.update(f.__dict__)
    return Subject(g)


class Committee:
    """A callable whose members can be replaced."""

    def __init__(self, members, factor=1.0):
        self.members, self.factor = members, factor

    def __call__(self, x):
        return self.factor * tf.add_n([member(x) for member in self.members])

    def logits(self, x):
        return self(x)


def _bad(world):
    other = clone(world.net)
    other.set_weights([np.zeros_like(w) if w.ndim == 1 else -w for w in other.get_weights()])
    return other


@case("members of a callable replaced")
def _(world):
    whole = measured_before(world, Committee([world.net]))
    whole.members = [_bad(world)]
    return Subject(whole)


@case("copy of a callable with other members")
def _(world):
    whole = copy.copy(measured_before(world, Committee([world.net])))
    whole.members = [_bad(world)]
    return Subject(whole)


@case("attribute of a callable changed")
def _(world):
    whole = measured_before(world, Committee([world.net]))
    whole.factor = -1.0
    return Subject(whole)


@case("attribute behind a bound method changed")
def _(world):
    whole = Committee([world.net])
    measured_before(world, whole.logits)
    whole.factor = -1.0
    return Subject(whole.logits)


@case("Python value in a closure changed")
def _(world):
    scale = {"s": 1.0}

    def f(x):
        return scale["s"] * world.net(x)

    measured_before(world, f)
    scale["s"] = -1.0
    return Subject(f)


@case("functools.partial over a changed list")
def _(world):
    signs = [1.0]
    f = functools.partial(lambda signs, x: signs[0] * world.net(x), signs)
    measured_before(world, f)
    signs[0] = -1.0
    return Subject(f)


@case("tf.Module with a changed Python attribute")
def _(world):
    class Net(tf.Module):
        sign = 1.0

        def __call__(self, x):
            return self.sign * world.net(x)

    net = measured_before(world, Net())
    net.sign = -1.0
    return Subject(net)


@case("Normalization.adapt on other data")
def _(world):
    layer = keras.layers.Normalization(axis=None)
    layer.adapt(world.x * 20 + 5)
    net = keras.Sequential([keras.Input((8, 8, 1)), layer, clone(world.net)])
    measured_before(world, net)
    layer.adapt(world.x)
    return Subject(net)


@case("scale of a cosine head changed")
def _(world):
    net = measured_before(world, world.network(athe_tf.CosineDense(10, name="head"), epochs=3))
    net.get_layer("head").scale = -15.0
    return Subject(net)


@case("activation of the last layer replaced", says="softmax|probabilities")
def _(world):
    net = measured_before(world, clone(world.net))
    net.layers[-1].activation = keras.activations.softmax
    return Subject(net)


@case("attribute of a layer of one's own changed")
def _(world):
    class Temperature(keras.layers.Layer):
        t = 1.0

        def call(self, x):
            return self.t * x

    layer = Temperature()
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), layer])
    measured_before(world, net)
    layer.t = -1.0
    return Subject(net)


@case("attribute of a subclassed model changed")
def _(world):
    class Own(keras.Model):
        sign = 1.0

        def __init__(self):
            super().__init__()
            self.inner = clone(world.net)

        def call(self, x):
            return self.sign * self.inner(x)

    net = measured_before(world, Own())
    net.sign = -1.0
    return Subject(net)


@case("Rescaling layer changed")
def _(world):
    layer = keras.layers.Rescaling(1.0)
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), layer])
    measured_before(world, net)
    layer.scale = -1.0
    return Subject(net)


@case("layers of a sequential model replaced")
def _(world):
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), keras.layers.Rescaling(1.0)])
    measured_before(world, net)
    net.pop()
    net.add(keras.layers.Rescaling(-1.0))
    return Subject(net)


@case("call of a layer replaced")
def _(world):
    net = measured_before(world, clone(world.net))
    head = net.layers[-1]
    plain = head.call
    head.call = lambda x, training=None: -plain(x)
    return Subject(net)


@case("weights assigned")
def _(world):
    net = measured_before(world, clone(world.net))
    net.set_weights(_bad(world).get_weights())
    return Subject(net)


@case("a NumPy array in a closure changed in place")
def _(world):
    bias = np.zeros(10, "float32")

    def f(x):
        return world.net(x) + bias

    measured_before(world, f)
    bias[3] = 1e3
    return Subject(f)


@case("a layer's NumPy array changed in place")
def _(world):
    class Shift(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.shift = np.zeros(10, "float32")

        def call(self, x):
            return x + self.shift

    layer = Shift()
    net = keras.Sequential([keras.Input((8, 8, 1)), clone(world.net), layer])
    measured_before(world, net)
    layer.shift[3] = 1e3
    return Subject(net)


# Gradients


def trap(value, where=None):
    """The same value, with a gradient that is NaN, everywhere or for some images."""
    safe = tf.fill(tf.shape(value), True) if where is None else where
    return tf.where(safe, value, value * np.nan)


@case("gradients that are all NaN", says="not finite|finite")
def _(world):
    return Subject(lambda x: world.net(trap(x, x < 1e9)), twin=world.net)


@case("gradients that are NaN for every second image", says="finite")
def _(world):
    def net(x):
        bright = tf.reduce_mean(x, [1, 2, 3], keepdims=True) > 0.3
        return world.net(tf.where(bright, x, trap(x, x < 1e9)))

    return Subject(net, twin=world.net)


@case("gradients that are zero for most images", says="zero")
def _(world):
    def net(x):
        bright = tf.reduce_mean(x, [1, 2, 3], keepdims=True) > 0.33
        return world.net(tf.where(bright, x, tf.stop_gradient(x)))

    return Subject(net, twin=world.net)


@case("gradients that are zero after the first batch", says="zero")
def _(world):
    x = np.concatenate([world.x, world.x[:, ::-1] * 0.999, world.x[:, :, ::-1] * 0.999])
    y = np.concatenate([world.y] * 3)
    first = tf.constant(world.x.reshape(IMAGES_, -1))

    def net(z):
        rows = tf.reshape(z, [-1, 64])
        gap = tf.reduce_min(tf.reduce_max(tf.abs(rows[:, None] - first[None]), 2), 1)
        near = (gap <= 1.01 * EPSILON)[:, None, None, None]
        return world.net(tf.where(near, z, tf.stop_gradient(z)))

    wrong = world.net.predict(x, verbose=0).argmax(1) != y
    y = np.where(wrong, world.net.predict(x, verbose=0).argmax(1), y).astype("int32")
    return Subject(net, twin=world.net, data=(x, y), truth=(x, y), options={"batch_size": IMAGES_})


IMAGES_ = 48


@case("stopped gradients", says="gradient")
def _(world):
    return Subject(lambda x: world.net(tf.stop_gradient(x)), twin=world.net)


@case("rounded inputs (4 levels)", says="zero|gradient")
def _(world):
    return Subject(lambda x: world.net(tf.round(3 * x) / 3), twin=world.net)


@case("gradients of the wrong sign", says="black box|strong enough|noise", needs_checks=True)
def _(world):
    @tf.custom_gradient
    def scrambled(x):
        return tf.identity(x), lambda slope: -slope

    return Subject(lambda x: world.net(scrambled(x)), twin=world.net)


@case("infinite gradients", says="finite")
def _(world):
    def net(x):
        return world.net(x) + 0.0 * tf.sqrt(tf.reduce_sum(tf.square(x - x), [1, 2, 3]))[:, None]

    return Subject(net, twin=world.net)


@case("logits times 1e4", says="margin|saturat|scale")
def _(world):
    return Subject(lambda x: 1e4 * world.net(x))


@case("logits times 1e-4", says="scale")
def _(world):
    return Subject(lambda x: 1e-4 * world.net(x))


# Logits that are not numbers


@case("NaN logits for some clean images", says="NaN|not finite")
def _(world):
    def net(x):
        odd = tf.reduce_mean(x, [1, 2, 3]) < 0.27
        return tf.where(odd[:, None], tf.constant(np.nan), world.net(x))

    return Subject(net, twin=world.net)


@case("NaN logits near the decision boundary", says="NaN|not finite")
def _(world):
    def net(x):
        logits = world.net(x)
        top = tf.math.top_k(logits, 2).values
        return tf.where((top[:, :1] - top[:, 1:] < 1.0), tf.constant(np.nan), logits)

    return Subject(net, twin=world.net)


@case("NaN logits for all images", says="NaN|not finite")
def _(world):
    return Subject(lambda x: world.net(x) * np.nan, twin=world.net)


@case("infinite logits for some images", says="NaN|finite")
def _(world):
    def net(x):
        odd = tf.reduce_mean(x, [1, 2, 3]) < 0.27
        return tf.where(odd[:, None], tf.constant(np.inf), world.net(x))

    return Subject(net, twin=world.net)


# Chance, and images that depend on each other


@case("dropout at inference", says="randomized", random=True)
def _(world):
    def net(x):
        return world.net(tf.nn.dropout(x, 0.3))

    return Subject(net, twin=world.net)


@case("noise at inference", says="randomized", random=True)
def _(world):
    return Subject(lambda x: world.net(x + tf.random.normal(tf.shape(x), stddev=0.2)), twin=world.net)


@case("logits that depend on the batch", says="batch|alone")
def _(world):
    def net(x):
        logits = world.net(x)
        return logits - tf.reduce_mean(logits, axis=0)

    return Subject(net)


# Outputs


@case("softmax at the end", says="softmax|probabilities")
def _(world):
    return Subject(lambda x: tf.nn.softmax(world.net(x)), twin=world.net)


@case("softmax in float16", says="softmax|probabilities")
def _(world):
    return Subject(lambda x: tf.nn.softmax(tf.cast(world.net(x), tf.float16)), twin=world.net)


@case("softmax in bfloat16", says="softmax|probabilities")
def _(world):
    return Subject(lambda x: tf.nn.softmax(tf.cast(world.net(x), tf.bfloat16)), twin=world.net)


@case("sigmoid at the end", says="sigmoid|probabilities")
def _(world):
    return Subject(lambda x: tf.sigmoid(world.net(x)), twin=world.net)


@case("log-softmax at the end")
def _(world):
    return Subject(lambda x: tf.nn.log_softmax(world.net(x)))


@case("a dictionary of outputs", says="one tensor|dict|several outputs")
def _(world):
    return Subject(lambda x: {"logits": world.net(x)}, true=world.net)


@case("several outputs", says="one tensor|list|several outputs")
def _(world):
    return Subject(lambda x: [world.net(x), world.net(x)], true=world.net)


@case("one output", says="classes")
def _(world):
    return Subject(lambda x: world.net(x)[:, :1], true=world.net)


@case("one class for every image", says="one class|same class")
def _(world):
    shares = np.bincount(world.y, minlength=10)
    favorite = tf.one_hot(int(shares.argmax()), 10) * 5.0

    def net(x):
        return favorite[None] + 1e-3 * tf.tanh(world.net(x))

    return Subject(net)


# Inputs


@case("an integer input (uint8)", says="uint8|integer")
def _(world):
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    net = keras.Model(inputs, world.net(keras.layers.Rescaling(1 / 255.0)(inputs)))
    return Subject(net, true=lambda x: world.net(tf.round(255 * x) / 255), twin=world.net)


@case("an integer input behind with_input_range", says="uint8|integer")
def _(world):
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    net = keras.Model(inputs, world.net(keras.layers.Rescaling(1 / 255.0)(inputs)))
    return Subject(athe_tf.models.with_input_range(net, (0, 255)), true=world.net)


@case("an integer input inside another model", says="uint8|integer")
def _(world):
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    inner = keras.Model(inputs, world.net(keras.layers.Rescaling(1 / 255.0)(inputs)))
    return Subject(keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Rescaling(255.0), inner]))


@case("channels first", says="channels")
def _(world):
    return Subject(
        lambda x: world.net(tf.ensure_shape(tf.transpose(x, [0, 2, 3, 1]), [None, 8, 8, 1])), run=False
    )


@case("a model of pixels from 0 to 255", says="scaled to|0, 255")
def _(world):
    return Subject(lambda x: world.net(x / 255.0))


@case("a model of normalized images", says="standardized|-1, 1")
def _(world):
    mean, std = world.x.mean(), world.x.std()
    return Subject(lambda x: world.net(x * std + mean))


@case("images from 0 to 255", says="lie in .0, 1.|255")
def _(world):
    return Subject(world.net, data=(world.x * 255, world.y))


@case("tf.data of dictionaries")
def _(world):
    data = tf.data.Dataset.from_tensor_slices({"image": world.x, "label": world.y}).batch(20)
    return Subject(world.net, data=data)


@case("tf.data without batches")
def _(world):
    return Subject(world.net, data=tf.data.Dataset.from_tensor_slices((world.x, world.y)))


@case("TFDS dictionaries without batches, uint8")
def _(world):
    levels = np.rint(255 * world.x).astype("uint8")
    data = tf.data.Dataset.from_tensor_slices({"image": levels, "label": world.y, "id": np.arange(48)})
    return Subject(world.net, data=data, truth=(levels.astype("float32") / 255, world.y))


# Settings


@case("a targeted attack", says="targeted")
def _(world):
    attack = athe_tf.attacks.PGD(EPSILON, steps=5, targeted=True)
    return Subject(world.net, options={"attacks": [attack]})


@case("an attack at a smaller radius", says="0.01|radius")
def _(world):
    return Subject(world.net, options={"attacks": [athe_tf.attacks.PGD(0.01, steps=5)]})


@case("an attack in another norm", says="norm|threat model")
def _(world):
    return Subject(world.net, options={"attacks": [athe_tf.attacks.PGD(0.1, "l2", steps=5)]})


@case("a targeted attack by name", says="targeted")
def _(world):
    return Subject(world.net, options={"attacks": ["pgd-5(targeted=True)"]})


@case("a negative max_examples", says="max_examples")
def _(world):
    return Subject(world.net, options={"max_examples": -5})


@case("a negative batch size", says="batch_size")
def _(world):
    return Subject(world.net, options={"batch_size": -3})


@case("a batch size of zero", says="batch_size")
def _(world):
    return Subject(world.net, options={"batch_size": 0})


@case("an infinite logit scale", says="finite")
def _(world):
    options = athe_tf.evaluation.EvaluationOptions(logit_scale=float("inf"))
    return Subject(world.net, options={"options": options})


@case("a margin that is NaN", says="margin")
def _(world):
    options = athe_tf.evaluation.EvaluationOptions(margin=float("nan"))
    return Subject(world.net, options={"options": options})


# Training


def small_net(*front, seed=0):
    """An untrained network behind some layers."""
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((8, 8, 1)), *front, keras.layers.Conv2D(8, 3, activation="relu")]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(10)])


def trained(world, net, count=320, epochs=1, **fit):
    """A PGD-AT trainer after `fit` on some images, and the history."""
    trainer = athe_tf.training.PGDAT(net, athe_tf.attacks.PGD(EPSILON, steps=3))
    trainer.compile(keras.optimizers.SGD(0.1))
    x, y = (part[:count] for part in world.train)
    history = trainer.fit(
        x, y, batch_size=32, epochs=epochs, shuffle=False, verbose=0,
        validation_data=(world.x, world.y), **fit,
    )  # fmt: skip
    return trainer, history


def training_case(name: str, says: str = ""):
    """A training that must end right, be refused, or be warned about."""

    def added(train):
        def make(world):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                try:
                    outcome = train(world)
                except InputError as error:
                    fits = says and re.search(says, str(error))
                    return REFUSED if fits else f"{SILENT}: refused with {str(error)[:90]!r}"
                told = " ".join(str(one.message) for one in heard)
            if outcome is True:
                return RIGHT
            return WARNED if says and re.search(says, told) else f"{SILENT}: {outcome}"

        return case(f"fit: {name}", says, training=True)(make)

    return added


def same_weights(one, other) -> bool:
    return all(
        np.allclose(a, b, atol=1e-6) for a, b in zip(one.get_weights(), other.get_weights(), strict=True)
    )


@training_case("sample weights of shape [N, 1]")
def _(world):
    weight = np.random.default_rng(0).uniform(0, 2, 320).astype("float32")
    flat, column = small_net(), small_net()
    trained(world, flat, sample_weight=weight)
    trained(world, column, sample_weight=weight[:, None])
    return same_weights(flat, column) or "weights differ"


@training_case("class weights equal sample weights")
def _(world):
    share = {i: 0.5 + 0.1 * i for i in range(10)}
    one, other = small_net(), small_net()
    trained(world, one, class_weight=share)
    weights = np.array([share[int(label)] for label in world.train[1][:320]], "float32")
    trained(world, other, sample_weight=weights)
    return same_weights(one, other) or "weights differ"


@training_case("negative sample weights", says="negative")
def _(world):
    trained(world, small_net(), sample_weight=-np.ones(320, "float32"))
    return "accepted"


@training_case("a loss that is NaN", says="not finite|NaN|learning rate")
def _(world):
    net = small_net()
    net.layers[-1].set_weights([np.full_like(w, np.nan) for w in net.layers[-1].get_weights()])
    trained(world, net)
    return "accepted"


class Trap(keras.layers.Layer):
    """The identity, whose gradient with respect to its input is NaN."""

    def call(self, x):
        return tf.where(x < 1e9, x, x * np.nan)


@training_case("input gradients that are NaN", says="finite")
def _(world):
    net = small_net(Trap())
    _, history = trained(world, net, epochs=2)
    plain = keras.Sequential([keras.Input((8, 8, 1)), *net.layers[1:]])
    _, robust = reference(plain, plain, world.x, world.y)
    return abs(history.history["val_robust_accuracy"][-1] - robust) < 0.1 or "validation is wrong"


class Stopped(keras.layers.Layer):
    """The identity, without a gradient for its input."""

    def call(self, x):
        return tf.round(x * 3) / 3


@training_case("input gradients that are zero", says="zero|gradient")
def _(world):
    trained(world, small_net(Stopped()), epochs=2)
    return "accepted"


@training_case("a random layer at the front is applied before the attack")
def _(world):
    seen = []

    class Shift(keras.layers.Layer):
        """Moves images by a pixel in training, and counts its calls in the graph."""

        def call(self, x, training=False):
            seen.append(bool(training))
            return tf.roll(x, 1, axis=2) if training else x

    net = small_net(keras.layers.RandomTranslation(0.2, 0.2, seed=1))
    _, history = trained(world, net, epochs=3)
    gap = history.history["robust_accuracy"][-1] - history.history["val_robust_accuracy"][-1]
    return gap < 0.25 or f"training and validation differ by {gap:.2f}"


@training_case("a random layer in the middle", says="random")
def _(world):
    keras.utils.set_random_seed(0)
    net = keras.Sequential(
        [
            keras.Input((8, 8, 1)), keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.RandomTranslation(0.2, 0.2), keras.layers.Flatten(), keras.layers.Dense(10),
        ]
    )  # fmt: skip
    trained(world, net)
    return "accepted"


@training_case("a random layer behind a Rescaling", says="random")
def _(world):
    trained(world, small_net(keras.layers.Rescaling(1.0), keras.layers.RandomTranslation(0.2, 0.2)))
    return "accepted"


@training_case("a layer that mixes images and not labels", says="labels")
def _(world):
    trained(world, small_net(keras.layers.MixUp()))
    return "accepted"


@training_case("an integer input", says="uint8|integer")
def _(world):
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    inner = small_net()
    net = keras.Model(inputs, inner(keras.layers.Rescaling(1 / 255.0)(inputs)))
    trained(world, net)
    return "accepted"


@training_case("an infinite logit scale", says="finite")
def _(world):
    athe_tf.attacks.PGD(EPSILON, steps=3, logit_scale=float("inf"))
    return "accepted"
