"""What an attack sees of a model."""

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.digest import keras_digest, keras_state
from athe_tf.models.features import Head, check_float_input, find_head
from athe_tf.utils.errors import InputError, NotApplicable, check

# The arguments that a victim has as attributes.
_KEPT_IN_COPIES = (
    "head",
    "scale",
    "num_classes",
    "name",
    "facts",
    "independent",
    "differentiable",
    "network",
    "passes",
)


class Victim:
    """A classifier as an attack sees it: images in, logits out, and sometimes more.

    The maker of a victim decides how batch normalization behaves in it: `athe_tf.victim(model)` is in
    inference mode; a training framework makes its own.

    Example:

    >>> athe_tf.victim(lambda x: x[:, 0, 0, :], num_classes=3)
    Victim('<lambda>', num_classes=3, scale=1.0, features=False)

    Args:
        logits: From images `[N, H, W, C]` in [0, 1] to logits `[N, L]`, differentiable.
        features: From images to penultimate features, or `None` if the model does not show them.
        head: The layer that turns features into logits, or `None`.
        scale: The factor that the logits already contain: the head's scale, or 1.
        num_classes: `L`, or `None` if it is known only after a call.
        name: Its name in reports.
        facts: The card of the model, if it has one.
        independent: Whether the logits of an image do not depend on the rest of its batch. False in
            training mode, where batch normalization mixes them.
        differentiable: Whether the logits are expected to have gradients; false for files of other runtimes.
        digest: Returns a text that identifies the model and its weights, or `None` if there is none. Without
            it, an interrupted attack on this victim cannot be resumed.
        source: Another victim whose gradients attacks follow: the model that a file without gradients was
            made of, for example. This victim remains the judge: an image is adversarial only if it errs.
            Defaults to `None`: the victim itself.
        network: The Keras model that `logits` calls, if there is one: its layers have names.
        passes: Passes of the network in one call of `logits`. Defaults to 1.
    """

    def __init__(
        self,
        logits: Callable,
        *,
        features: Callable | None = None,
        head=None,
        scale: float = 1.0,
        num_classes: int | None = None,
        name: str = "model",
        facts: dict | None = None,
        independent: bool = True,
        differentiable: bool = True,
        digest: Callable[[], str | None] | None = None,
        source: "Victim | None" = None,
        network: keras.Model | None = None,
        passes: int = 1,
    ):
        self._logits = logits
        self._features = features
        self.head = head
        self.scale = scale
        self.num_classes = num_classes
        self.name = name
        self.facts = facts or {}
        self.independent = independent
        self.source = self if source is None else source
        self.differentiable = differentiable or source is not None
        self._digest = digest
        self.network, self.passes = network, passes
        #: By device, victims that compute the same there; empty unless there are several devices.
        self.copies: dict[str, Victim] = {}
        #: Whether it computes what its model does now, as far as that can be told.
        self.unchanged: Callable[[], bool] = lambda: True

    def __repr__(self) -> str:
        return (
            f"Victim({self.name!r}, num_classes={self.num_classes}, scale={self.scale}, "
            f"features={self.has_features})"
        )

    def replace(self, **changes) -> "Victim":
        """A victim with other arguments than this one.

        Example:

        >>> athe_tf.victim(lambda x: x[:, 0, 0, :]).replace(num_classes=3).num_classes
        3
        """
        kept = {name: getattr(self, name) for name in _KEPT_IN_COPIES}
        private = {name: getattr(self, f"_{name}") for name in ("logits", "features", "digest")}
        source = None if self.source is self else self.source
        found = Victim(**{**kept, **private, "source": source, **changes})
        found.unchanged = self.unchanged
        return found

    def digest(self) -> str | None:
        """A text that identifies the model and its weights as they are now; `None` if there is none."""
        found = None if self._digest is None else self._digest()
        if found is None or self.source is self:
            return found
        source = self.source.digest()
        return None if source is None else f"{found}, gradients of {source}"

    def logits(self, x):
        """Logits in `attack_dtype`, whatever the model computes in."""
        outputs = self._logits(x)
        if isinstance(outputs, (Mapping, list, tuple)):
            names = [repr(name) for name in outputs] if isinstance(outputs, Mapping) else []
            raise InputError(
                f"The model '{self.name}' must return one tensor, its logits. Received several outputs: a "
                f"{type(outputs).__name__} of {', '.join(names) or len(outputs)}. Choose one, such as "
                f"lambda x: model(x)[{names[0] if names else 0}]."
            )
        return tf.cast(outputs, attack_dtype(x))

    @functools.cached_property
    def compiled_logits(self):
        """`logits`, compiled once for all batch sizes."""
        return tf.function(self.logits, autograph=False, reduce_retracing=True)

    @property
    def has_features(self) -> bool:
        """Whether the model shows its penultimate features."""
        return self._features is not None

    def features(self, x):
        """Penultimate features in `attack_dtype`."""
        return tf.cast(self.require_features("This attack")(x), attack_dtype(x))

    @functools.cached_property
    def compiled_features(self):
        """`features`, to be compiled."""
        return tf.function(self.features, autograph=False)

    def require_features(self, who: str) -> Callable:
        """The model's features; raises `NotApplicable`, in the name of `who`, if it does not show them."""
        if self._features is None:
            raise NotApplicable(
                f"{who} needs penultimate features, and '{self.name}' offers logits only. Give a functional "
                "Keras model that ends in a Dense or CosineDense, or a SavedModel that athe_tf.export wrote "
                "of one."
            )
        return self._features

    def require_head(self, who: str):
        """The last layer; raises `NotApplicable`, in the name of `who`, if the victim does not show it."""
        if self.head is None:
            raise NotApplicable(
                f"{who} needs the last layer of the model, and '{self.name}' does not show it. "
                "Give a Keras model."
            )
        return self.head


def attack_dtype(x):
    """The dtype that attacks compute in: float64 for tensors of that dtype, else float32."""
    return tf.float64 if tf.is_tensor(x) and x.dtype == tf.float64 else tf.float32


# The attribute under which a Keras model keeps its victim, with the state that it belongs to. On the model
# itself, so that both die together; a copy of the model gets the attribute too, and is not its owner.
_KEPT = "_athe_tf_victim"


class _Kept(NamedTuple):
    owner: weakref.ref
    state: list
    victim: "Victim"


def victim_of(model, num_classes: int | None = None) -> Victim:
    """A victim from a Keras model or a callable, in inference mode: what `athe_tf.victim` does without files.

    It computes what the model computes now. A Keras model of known layers keeps its victim, and with it the
    compiled attacks, until anything but the values of its variables changes. A function, or a model with
    layers from elsewhere, gets a new one each time: pass the victim on to compile an attack once.

    Args:
        model: A Keras model that outputs logits, a function from images to logits, or a `Victim`, which is
            returned unchanged.
        num_classes: For callables, which do not say it themselves.
    """
    if isinstance(model, Victim):
        check(
            model.unchanged(),
            f"The model of the victim '{model.name}' has changed since the victim was made, and what was "
            "compiled for it does not follow. Make it again: athe_tf.victim(model).",
        )
        return model
    if not callable(model):
        raise InputError(
            "Expected a Keras model, a SavedModel folder or a callable from images to logits. "
            f"Received: {type(model).__name__}."
        )
    if not isinstance(model, keras.Model):
        # What a function computes may change at any time: nothing is kept.
        return Victim(model, num_classes=num_classes, name=getattr(model, "__name__", type(model).__name__))
    state, kept = keras_state(model), vars(model).get(_KEPT)
    if kept is not None and kept.owner() is model and state is not None and kept.state == state:
        return kept.victim
    check_float_input(model)
    made = keras_victim(model, find_head(model))
    if state is not None:
        made.unchanged = lambda: keras_state(model) == state
        # Past Keras, which would track an attribute that is set the usual way.
        object.__setattr__(model, _KEPT, _Kept(weakref.ref(model), state, made))
    return made


def replicated_victim(model: keras.Model, devices: Sequence[str]) -> Victim:
    """A victim from a Keras model in inference mode, with a copy of the weights on each of `devices`.

    An attack is compiled for each device. Later changes of the model's weights are not seen.
    """
    original = victim_of(model)
    features = find_head(model).features

    def on(device: str) -> Victim:
        with tf.device(device):
            pairs = [(variable, tf.identity(variable)) for variable in model.variables]

        def called(part, x):
            with keras.StatelessScope(state_mapping=pairs):
                return part(x, training=False)

        return original.replace(
            logits=lambda x: called(model, x),
            features=None if features is None else (lambda x: called(features, x)),
        )

    found = on(devices[0])
    found.copies = {device: on(device) for device in devices}
    return found


def in_range(victim: Victim, low: float, high: float, mean=0.0, std=1.0) -> Victim:
    """A victim of images in [0, 1], from one that expects pixels from `low` to `high`, then normalized.

    Example:

    >>> sees_pixels = athe_tf.victim(lambda x: x[:, 0, 0, :], num_classes=3)
    >>> in_range(sees_pixels, 0, 255).logits(np.ones([1, 2, 2, 3], "float32")).numpy().tolist()
    [[255.0, 255.0, 255.0]]
    """

    def rescaled(function):
        shift, factor = (np.asarray(one, "float32") for one in (mean, std))
        return None if function is None else (lambda x: function((low + (high - low) * x - shift) / factor))

    def digest():
        found = victim.digest()
        told = "" if np.all(std == 1.0) and not np.any(mean) else f", mean {mean}, standard deviation {std}"
        return None if found is None else f"{found}, pixels from {low:g} to {high:g}{told}"

    inside = {"logits": rescaled(victim._logits), "features": rescaled(victim._features), "digest": digest}
    if victim.source is not victim:
        inside["source"] = in_range(victim.source, low, high, mean, std)
    found = victim.replace(**inside)
    copies = victim.copies.items()
    found.copies = {device: in_range(copy, low, high, mean, std) for device, copy in copies}
    return found


def keras_victim(model: keras.Model, end: Head, training: bool = False) -> Victim:
    """A victim from a Keras model and its head, in inference or in training mode."""
    head, features = end
    shape = getattr(model, "output_shape", None)
    return Victim(
        lambda x: model(x, training=training),
        features=None if features is None else (lambda x: features(x, training=training)),
        head=head,
        scale=head.scale if isinstance(head, CosineDense) else 1.0,
        num_classes=shape[-1] if isinstance(shape, tuple) else None,
        name=model.name,
        independent=not training,
        digest=lambda: keras_digest(model),
        network=model,
    )
