"""Digests that identify a model, so that the state of one evaluation is never taken for another's.

Python code has no digest: a function, a `Lambda` layer or a layer without a config may do something else
tomorrow, and a model that contains one cannot be identified.
"""

import hashlib
import inspect
import json
import re
import types
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from athe_tf.utils.digests import array_digest, text_digest, update
from athe_tf.utils.keras_compat import all_layers

# Packages whose classes and functions are described by their names and settings.
_KNOWN = ("athe_tf", "keras", "tensorflow")


def identify(victim) -> str | None:
    """The digest of a victim's model; `None`, with a warning, if it cannot be identified."""
    found = victim.digest()
    if found is None:
        warnings.warn(
            f"The model '{victim.name}' contains Python code, which cannot be recognized after an "
            "interruption: no state is kept, and this run cannot be resumed. Use a .keras file or a "
            "SavedModel.",
            stacklevel=2,
        )
    return found


def keras_digest(model: keras.Model) -> str | None:
    """A digest of the architecture and the weights of a Keras model; `None` if it contains Python code.

    Names that Keras chose are left out, since they count the models that a process made.

    Example:

    >>> keras_digest(net) == keras_digest(keras.models.clone_model(net))  # other weights
    False
    """
    try:
        layers = all_layers(model)
        # A layer may keep a Python function from elsewhere, as `Lambda` does.
        kept = (value for layer in layers for value in vars(layer).values())
        if any(isinstance(value, types.FunctionType) and is_third_party(value) for value in kept):
            return None
        whole = keras.saving.serialize_keras_object(model)
        # Without the optimizer and the loss that it was compiled with.
        config = {name: whole[name] for name in ("class_name", "config")}
        digest = hashlib.sha256(_as_text(config).encode())
        if any(is_third_party(type(layer)) for layer in layers):
            for layer in layers:
                digest.update(_as_text(_described(layer)).encode())
    except Exception:  # a layer from elsewhere may have no config, or none that works
        return None
    for variable in model.weights:
        digest.update(f"{variable.name}\n".encode())
        update(digest, keras.ops.convert_to_numpy(variable))
    return digest.hexdigest()


class _Same:
    """An object that is equal to itself alone, and stays alive, so that no other gets its address."""

    def __init__(self, thing):
        self.thing = thing

    def __eq__(self, other):
        return isinstance(other, _Same) and self.thing is other.thing


def keras_state(model: keras.Model) -> list | None:
    """What decides, beside the values of variables, what a Keras model computes; compare it with `==`.

    `None` if classes or functions from elsewhere are part of the model: what they read may change unseen.
    """
    state: list = []
    for layer in [*all_layers(model), *getattr(model, "operations", ())]:
        kind = type(layer)
        if is_third_party(kind) or "call" in vars(layer):  # a method replaced on this object
            return None
        state.append((_Same(layer), _Same(kind.call), _Same(getattr(layer, "dtype_policy", None))))
        if isinstance(layer, keras.Model):
            if not getattr(layer, "outputs", None):  # its layers are called by Python code
                return None
            state.append([_Same(tensor) for tensor in (*layer.inputs, *layer.outputs)])
            continue
        for name, value in vars(layer).items():
            # Private attributes also keep what calls leave behind; what computes is public, or a tensor.
            if not name.startswith("_") or hasattr(value, "shape"):
                try:
                    state.append((name, _value_state(value)))
                except LookupError:
                    return None
    return state


def _class_or_code(value):
    """The function or class itself, or the class of an object."""
    return value if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) else type(value)


def _known_object(value) -> _Same:
    """The object; `LookupError` if what it computes is not known."""
    if is_third_party(_class_or_code(value)) and not isinstance(value, np.generic):
        raise LookupError
    return _Same(value)


def _value_state(value, of_object=_known_object):
    """The value itself where it can change in place, else `of_object` of it."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [_value_state(item, of_object) for item in value]
    if isinstance(value, dict):
        return {name: _value_state(item, of_object) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return array_digest(value)
    return of_object(value)


def is_third_party(thing: Any) -> bool:
    """Whether a class or a function comes from elsewhere, so that no version number tells what it does."""
    return thing.__module__.partition(".")[0] not in _KNOWN


def source_of(attack_class: type) -> dict[str, str]:
    """The source code of an attack from elsewhere, as an entry of an identity; empty for athe_tf's own."""
    if not is_third_party(attack_class):
        return {}
    try:
        return {"code of the attack": text_digest(inspect.getsource(attack_class))}
    except (OSError, TypeError):  # written in a console
        return {}


def _described(layer) -> dict:
    """A layer beside or inside layers from elsewhere, whose configs need not contain it, as JSON.

    Of a layer from elsewhere: its code, the values that this reads, and those that the layer keeps. Raises
    `LookupError` for an object that these do not describe.
    """
    if not is_third_party(type(layer)):
        return {} if isinstance(layer, keras.Model) else keras.saving.serialize_keras_object(layer)
    package, seen = type(layer).__module__.partition(".")[0], set()

    def code(value):
        if isinstance(value, (keras.Variable, tf.Variable, tf.Tensor, np.generic)):
            return array_digest(value)
        value = inspect.unwrap(getattr(value, "fget", getattr(value, "__func__", value)))
        named = _class_or_code(value)
        if isinstance(value, (keras.layers.Layer, types.ModuleType)) or not is_third_party(named):
            return named.__qualname__
        if named is not value:
            raise LookupError
        if value in seen:
            return value.__qualname__
        seen.add(value)
        if value.__module__.partition(".")[0] != package:
            return inspect.getsource(value)
        if isinstance(value, type):
            read = {name: each for name, each in vars(value).items() if not name.startswith("__")}
            read["bases"] = value.__bases__
        else:
            read = {**inspect.getclosurevars(value).nonlocals, **inspect.getclosurevars(value).globals}
        return [inspect.getsource(value), _value_state(read, code)]

    # Without what Keras keeps in every layer and model.
    own = {*vars(keras.Model(name="any")), "optimizer", "history", "stop_training"}
    private = ("_self_", "_compile", "_eval")
    kept = {name: each for name, each in vars(layer).items() if not (name in own or name.startswith(private))}
    return {"class": code(type(layer)), "kept": _value_state(kept, code)}


def _as_text(config: dict) -> str:
    """A config as JSON, in which names that Keras made from names of classes, as `conv2d_3`, are numbered."""
    names: dict[str, str] = {}
    left: list = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            inner = value.get("config")
            name = inner.get("name") if isinstance(inner, dict) else None
            plain = re.sub(r"_\d+$", "", str(name)).replace("_", "")
            if name is not None and plain == str(value.get("class_name")).lower():
                names.setdefault(json.dumps(name), json.dumps(f"\0{len(names)}"))
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            left.extend(reversed(value))
    # A text that is a key ends with a colon, and so is no name.
    text = re.compile(r'"(?:[^"\\]|\\.)*":?')
    return text.sub(lambda found: names.get(found[0], found[0]), json.dumps(config, sort_keys=True))
