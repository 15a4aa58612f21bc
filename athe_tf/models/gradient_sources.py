"""Other gradients than a model's own: through layers that have none, and averages over random passes."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.victim import Victim, victim_of
from athe_tf.utils.errors import InputError, NotApplicable, cause, check
from athe_tf.utils.keras_compat import all_layers
from athe_tf.utils.registry import import_object, unknown_name


def inner_layers(victim: Victim) -> dict[str, Any]:
    """The layers of a victim's Keras model that contain no others, and its operations, by name.

    Raises `NotApplicable` if the victim is no Keras model.
    """
    if victim.network is None:
        raise NotApplicable(f"the layers of '{victim.name}' are not known. Give a Keras model.")
    every = all_layers(victim.network)
    every += [one for model in every for one in getattr(model, "operations", ())]
    inner = [one for one in every if not isinstance(one, keras.layers.Layer) or len(all_layers(one)) == 1]
    return {one.name: one for one in inner if not isinstance(one, (keras.layers.InputLayer, keras.Model))}


@contextlib.contextmanager
def replaced_calls(calls: Sequence[tuple[Any, Callable]]) -> Iterator[None]:
    """A context in which layers call functions of their own `call` and its arguments; for tracing."""
    before = [(layer, vars(layer).get("call")) for layer, _ in calls]
    for layer, function in calls:
        # Past Keras, which would track an attribute that is set the usual way.
        object.__setattr__(layer, "call", functools.partial(function, layer.call))
    try:
        yield
    finally:
        for layer, call in before:
            object.__delattr__(layer, "call")
            if call is not None:
                object.__setattr__(layer, "call", call)


@contextlib.contextmanager
def taken_apart(victim: Victim) -> Iterator[None]:
    """Raises `NotApplicable` in place of an error of layers that cannot be called one by one.

    Layers inside a `tf.function` have no values outside, and some know the shape that the last one must have.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise NotApplicable(
            f"'{victim.name}' cannot be taken apart by its layers: {cause(error)}."
        ) from error


def straight_through(model, layers: Sequence[str] | Mapping[str, Callable | None]) -> Victim:
    """A victim whose attacks pass backward through layers that have no gradient, such as rounding.

    Attacks take the gradient of a replacement there (backward pass differentiable approximation, Athalye et
    al., 2018): of the identity, or of a function. The model itself remains the judge, so that an image is
    adversarial only if the model as it is errs.

    Example:

    >>> rounded = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Lambda(tf.round, name="round"), net])
    >>> attackable = athe_tf.models.straight_through(rounded, ["round"])

    Args:
        model: A Keras model, or a `Victim` made of one.
        layers: Names of layers; or a mapping from them to differentiable functions that take their place
            in the backward pass, `None` for the identity. A name may carry the function as a path:
            `"jpeg=my_module:blur"`. The identity needs an output of the shape of the input.
    """
    victim = victim_of(model)
    if not layers:
        return victim
    known = inner_layers(victim)
    paired: list[tuple[str, Any]] = [one.partition("=")[::2] for one in layers]
    if isinstance(layers, Mapping):
        paired = list(layers.items())
    calls: list[tuple[Any, Callable]] = []
    for name, function in paired:
        if name not in known:
            raise unknown_name("layer of straight_through", name, known)
        function = import_object(function, "function") if function and isinstance(function, str) else function
        calls.append((known[name], functools.partial(_passed_through, name, function or tf.identity)))
    through, plain = ", ".join(layer.name for layer, _ in calls), not any(function for _, function in paired)

    def digest():
        found = victim.digest()
        return f"{found}, straight through {through}" if plain and found is not None else None

    changes: dict[str, Any] = {"name": f"{victim.name}, straight through {through}", "digest": digest}
    found = victim.replace(source=with_calls(victim.source, calls, **changes))
    found.copies = {device: straight_through(copy, layers) for device, copy in victim.copies.items()}
    return found


def _passed_through(name: str, function: Callable, call: Callable, x, *args, **kwargs):
    """The output of a layer, with the gradient of a function of its input."""
    output, passed = call(x, *args, **kwargs), function(x)
    check(
        output.shape.is_compatible_with(passed.shape),
        f"The layer '{name}' has outputs of shape {output.shape}, and what replaces it in the backward pass "
        f"has {passed.shape}. Expected one shape. Give a function: '{name}=module:function'.",
    )
    return passed + tf.stop_gradient(tf.cast(output, passed.dtype) - passed)


def with_calls(victim: Victim, calls: Sequence[tuple[Any, Callable]], **changes) -> Victim:
    """The same victim, with other calls of some layers and further changes."""

    def called(function):
        def inside(x):
            with replaced_calls(calls):
                return function(x)

        return None if function is None else inside

    return victim.replace(logits=called(victim._logits), features=called(victim._features), **changes)


def majority_of(victim: Victim, passes: int, gradient_passes: int = 1) -> Victim:
    """A victim of a randomized model that decides by the votes of several passes.

    Attacks take the gradients of the mean logits of `gradient_passes` passes (expectation over
    transformation, Athalye et al., 2018), and an image is adversarial only if most of `passes` say so.
    """

    def votes(x):
        logits = victim.logits(x)
        return tf.one_hot(tf.argmax(logits, axis=1), logits.shape[-1], dtype=logits.dtype)

    def mean(function, count, x):
        # A loop in the graph: it is traced once, however many passes there are.
        added = tf.while_loop(
            lambda i, _: i < count, lambda i, total: (i + 1, total + function(x)), (1, function(x)),
            parallel_iterations=1, maximum_iterations=count,
        )[1]  # fmt: skip
        return added / count

    source = victim.source
    if gradient_passes > 1:
        logits, name = source.logits, f"{source.name}, mean of {gradient_passes} passes"
        logits = functools.partial(mean, logits, gradient_passes)
        source = source.replace(logits=logits, name=name, passes=source.passes * gradient_passes)
    elif source is victim:
        source = victim.replace()
    judge = functools.partial(mean, votes, passes)
    return victim.replace(logits=judge, features=None, source=source, passes=passes)


def wrong_passes(victim: Victim, images, labels, passes: int, batch_size: int) -> np.ndarray:
    """In how many of several passes each image is misclassified; `victim` makes one at a time."""
    wrong = np.zeros(len(images), np.int64)
    for start in range(0, len(images), batch_size):
        part = slice(start, start + batch_size)
        x, y = tf.convert_to_tensor(images[part], tf.float32), np.asarray(labels[part])
        for _ in range(passes):
            logits = victim.compiled_logits(x).numpy()
            wrong[part] += (logits.argmax(axis=1) != y) | ~np.isfinite(logits).all(axis=1)
    return wrong


def layers_without_gradient(victim: Victim, x, y) -> list[str]:
    """Names of layers without weights whose output the margin depends on, and whose input it does not."""
    seen: list[tuple[str, list, Any]] = []
    layers = inner_layers(victim)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:

        def recorded(name, call, *args, **kwargs):
            # Copies, since other layers may use the same tensors.
            copied = tf.nest.map_structure(lambda one: tf.identity(one) if tf.is_tensor(one) else one, args)
            inputs = [one for one in tf.nest.flatten(copied) if tf.is_tensor(one) and one.dtype.is_floating]
            # Otherwise a layer behind one without a gradient would seem to have none either.
            tape.watch(inputs)
            result = call(*copied, **kwargs)
            output = [one for one in tf.nest.flatten(result) if one.dtype.is_floating]
            tape.watch(output)
            seen.append((name, inputs, output))
            return result

        calls = [(layer, functools.partial(recorded, name)) for name, layer in layers.items()]
        with replaced_calls(calls):
            logits = victim.logits(tf.convert_to_tensor(x, tf.float32))
        classes = tf.one_hot(y, logits.shape[-1])
        margin = tf.reduce_max(logits - 1e8 * classes, axis=1) - tf.reduce_sum(logits * classes, axis=1)
    found = []
    for name, inputs, output in seen:
        if getattr(layers[name], "trainable_variables", ()):
            continue
        before, after = (tape.gradient(margin, one) for one in (inputs, output))
        if _any(after) and not _any(before):
            found.append(name)
    return list(dict.fromkeys(found))


def _any(gradients) -> bool:
    return any(one is not None and bool(tf.reduce_any(one != 0)) for one in gradients)


def last_dense_layer(victim: Victim, x) -> Any:
    """The last layer of a victim's Keras model that is a `Dense` or `CosineDense` on one vector per image."""
    seen: list = []

    def recorded(layer, call, inputs, *args, **kwargs):
        seen.extend([layer] if len(inputs.shape) == 2 else [])
        return call(inputs, *args, **kwargs)

    dense = [
        one for one in inner_layers(victim).values() if isinstance(one, (CosineDense, keras.layers.Dense))
    ]
    with replaced_calls([(one, functools.partial(recorded, one)) for one in dense]):
        victim.logits(x)
    if not seen:
        raise NotApplicable(f"'{victim.name}' has no Dense or CosineDense layer on one vector per image.")
    return seen[-1]
