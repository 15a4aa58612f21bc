"""Random layers at the front of a model, such as `RandomFlip`: applied once per batch, before the attack.

An adversarial example is made for the network that is trained on it. If an attack ran in front of a layer
that moves or flips images at random, training would see other images than the attack made.
"""

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from athe_tf.models.features import known_graph
from athe_tf.utils import replicas, rng
from athe_tf.utils.errors import check
from athe_tf.utils.keras_compat import all_layers, producer, seed_states

# Separates these draws from the random starts of the attack.
STREAM = 0xF407
# They change features that only training sees; crafting has its own setting for them, `bn_mode`.
DROPOUT = ("drop", "stochasticdepth")
MIXES_LABELS = ("MixUp", "CutMix")
# Operations of `tf.random`, with a state that Keras does not know; its own layers draw by a seed each time.
_UNSEEN = re.compile("Random|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|Rng|StatefulStandard")


def cut(model: keras.Model) -> tuple[list, Any]:
    """`(random layers directly behind the input, the rest of the model)`; the rest shares all layers.

    The rest is `model` itself if it does not begin with a random layer or cannot be cut, and `None` if
    nothing is left.
    """
    if not known_graph(model):
        return [], model
    front: list = []
    inputs = model.inputs[0]
    for layer, outputs in _path(model):
        found, left = cut(layer) if isinstance(layer, keras.Model) else _one(layer)
        front += found
        if left is not None:
            break
        inputs = outputs
    else:
        return front, None
    if not front:
        return [], model
    try:
        if not found:
            return front, keras.Model(inputs, model.outputs[0], name=model.name)
        # The cut is inside a nested model.
        inputs = keras.Input(batch_shape=left.input_shape, dtype=left.inputs[0].dtype)
        logits = left(inputs)
        if outputs is not model.outputs[0]:
            logits = keras.Model(outputs, model.outputs[0])(logits)
        return front, keras.Model(inputs, logits, name=model.name)
    except ValueError:  # a connection leads around the random layers
        return [], model


def _path(model: keras.Model) -> list:
    """Layers from the input to the output, each with its output; of several inputs the first is followed."""
    found, tensor = [], model.outputs[0]
    while tensor is not None:
        layer, before = producer(tensor)
        found.append((layer, tensor))
        tensor = before
    return found[-2::-1]  # without the input itself


def _one(layer) -> tuple[list, Any]:
    is_random = isinstance(layer, keras.layers.Layer) and not layer.weights and random_layers(layer)
    return ([layer], None) if is_random else ([], layer)


def random_layers(layer) -> list:
    """The layers among `layer` and those inside it that draw random numbers in training; not dropout."""
    return [each for each in all_layers(layer) if _draws(each)]


def _draws(layer) -> bool:
    name = type(layer).__name__
    if any(part in name.lower() for part in DROPOUT) or hasattr(layer, "dropout"):
        return False
    inner = {id(state) for other in all_layers(layer)[1:] for state in seed_states(other)}
    return any(id(state) not in inner for state in seed_states(layer))


def check_random_layers(net: keras.Model, front: list) -> None:
    """Warns of random layers that are not at the front; raises `InputError` for those that mix labels."""
    found = random_layers(net)
    mixing = [layer.name for layer in found if type(layer).__name__ in MIXES_LABELS]
    check(
        not mixing,
        f"The layer '{''.join(mixing[:1])}' mixes images and would have to mix their labels, which a layer "
        f"inside a model cannot. Received: it in the model '{net.name}'. Take it out of the model, and mix "
        "with --mixup or --cutmix, in Python with train.stream(batch_size, seed=0, cutmix=1.0).",
    )
    applied = {id(each) for layer in front for each in random_layers(layer)}
    elsewhere = [f"'{layer.name}'" for layer in found if id(layer) not in applied]
    if elsewhere:
        warnings.warn(
            f"The random layers {', '.join(elsewhere)} of the model '{net.name}' are not directly behind its "
            "input: they change images after adversarial examples were made, which can undo adversarial "
            "training. Put them first in a functional or Sequential model, before any Rescaling, or into the "
            "input pipeline.",
            stacklevel=4,
        )
    ranges = [each for layer in front for each in random_layers(layer) if _largest(each) != 1]
    if ranges:
        warnings.warn(
            f"The random layer '{ranges[0].name}' expects pixels up to {_largest(ranges[0]):g}, and trainers "
            f"take images in [0, 1]. Make it with value_range=(0, 1).",
            stacklevel=4,
        )


@contextlib.contextmanager
def unseen_draws_named(net: keras.Model) -> Iterator[None]:
    """Warns if what is traced in the context draws random numbers by `tf.random`, not by Keras."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    yield
    new = graph.get_operations()[before:]
    found = sorted({op.type for op in new if op.op_def.is_stateful and _UNSEEN.match(op.type)})
    how = [f"tf.random ({', '.join(found)})"] if found else []
    if any(_is_seed_of_nobody(op, net) for op in new):
        how.append("keras.random without a SeedGenerator that a layer of the model keeps")
    if how:
        warnings.warn(
            f"The model '{net.name}' draws random numbers in training by {' and '.join(how)}, "
            "which cannot be done before the attack, nor repeated when a run is resumed. If they change "
            "images, training sees others than the attack made. Draw them by keras.random with a "
            "SeedGenerator, in a layer directly behind the input, or in the input pipeline.",
            stacklevel=2,
        )


def _is_seed_of_nobody(op, net: keras.Model) -> bool:
    """Whether an operation updates the state of a `SeedGenerator`, two integers, that is not the model's."""
    if op.type != "AssignVariableOp" or not (op.inputs[1].dtype.is_integer and op.inputs[1].shape == (2,)):
        return False
    handle = op.inputs[0]
    while (graph := getattr(handle, "graph", None)) is not None:  # out of the functions that captured it
        outer = [outside for outside, inside in graph.captures if inside.name == handle.name]
        if not outer:
            return False
        handle = outer[0]
    local = tf.distribute.get_strategy().experimental_local_results
    return all(handle is not one.handle for state in seed_states(net) for one in local(state.value))


def _largest(layer) -> float:
    return float((getattr(layer, "value_range", None) or (0, 1))[1])


def augmented(front: list, x, seed):
    """The images after the layers of `front`, in [0, 1]; a function of images, seed and replica alone.

    The states of the layers' own generators are neither read nor changed.
    """
    if not front:
        return x
    seed = rng.fold(seed, STREAM, replicas.index() if replicas.count() > 1 else 0)
    images = x
    for number, layer in enumerate(front):
        states = [
            (state, tf.cast(tf.stack([rng.fold(seed, number, i), rng.fold(seed, number, i, 1)]), state.dtype))
            for i, state in enumerate(seed_states(layer))
        ]
        with keras.StatelessScope(state_mapping=states):
            images = layer(images, training=True)
    return tf.clip_by_value(tf.cast(images, x.dtype), 0.0, 1.0)
