"""The gradient of a network in inference mode, in fewer operations, or in bfloat16.

While a batch is attacked, the weights are constant. So what depends on them alone is computed once, in front
of the loop of the attack: for crafting in training, and on demand in an evaluation.

- the kernels of convolutions with the scale of the batch normalization behind them, whose shift becomes a
  bias that oneDNN adds, with the activation, inside the convolution;
- where a batch normalization comes first, before an activation and convolutions, the kernels of their
  backward passes with its scale: it commutes with the derivative of the activation, so nothing is left to
  multiply;
- the kernel of the first convolution with the standard deviation of the pixels;
- kernels in half precision.

The logits and the gradient are those of the network up to rounding; there is no second derivative.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from athe_tf.layers.batch_norm import BatchNorm, affine_form, scaled_and_shifted
from athe_tf.layers.cosine_dense import CosineDense
from athe_tf.models.features import find_head, known_graph
from athe_tf.models.gradient_sources import with_calls
from athe_tf.models.victim import Victim, keras_victim
from athe_tf.utils.errors import check
from athe_tf.utils.keras_compat import called_once

# The attribute of models that `build` made: a user's own model is left as it is.
_BUILT = "_athe_tf_built"
_ACTIVATIONS = (keras.layers.Activation, keras.layers.LeakyReLU)


def mark_built(model: keras.Model) -> keras.Model:
    """The same model, which `folded` may take apart."""
    object.__setattr__(model, _BUILT, True)  # past Keras, which would track it
    return model


def folded(victim: Victim) -> Victim:
    """A victim with the gradients of `victim`, from its weights as they are now; graph code.

    Its loops must be in the function that called this. A model of a user is returned as it is.
    """
    model: Any = victim.network
    if not getattr(model, _BUILT, False) or model.inputs[0].dtype != "float32":
        return victim
    return with_calls(victim, list(_Folder(model).calls.items()))


class _Folder:
    """Finds what can be folded.

    Attributes:
        calls: From layers to functions that take the place of their `call`.
    """

    def __init__(self, model: keras.Model):
        self.after: dict[int, list] = {}
        self.before: dict[int, Any] = {id(layer.output): layer for layer in model.layers}
        for layer in model.layers:
            for tensor in tf.nest.flatten(layer.input):
                self.after.setdefault(id(tensor), []).append(layer)
        self.calls: dict[Any, Callable] = {}
        # By convolution: what multiplies its kernel by input channel, there and back, and what is added.
        self.there: dict[Any, Any] = {}
        self.back: dict[Any, Any] = {}
        self.behind: dict[Any, tuple] = {}
        for layer in model.layers:
            if type(layer) is BatchNorm:
                self._batch_norm(layer)
            elif type(layer) is keras.layers.Normalization:
                self._pixels(layer)
        for conv in {*self.there, *self.back, *self.behind, *filter(_is_convolution, model.layers)}:
            self.calls[conv] = self._convolution(conv)

    def _batch_norm(self, layer: BatchNorm) -> None:
        scale, shift = affine_form(layer)
        conv: Any = self.before.get(id(layer.input))
        if _is_convolution(conv) and len(self.after[id(conv.output)]) == 1:
            self.behind[conv] = scale, shift
            self.calls[layer] = _unchanged
            return
        activations = self.after[id(layer.output)]
        behind = self._convolutions_behind(activations[0]) if len(activations) == 1 else []
        if isinstance(activations[0], _ACTIVATIONS) and behind:
            self.back |= dict.fromkeys(behind, scale)
            self.calls[layer] = lambda call, x, **_: _shifted_without_slope(x, scale, shift)

    def _pixels(self, layer: keras.layers.Normalization) -> None:
        behind = self._convolutions_behind(layer)
        if behind:
            mean, root = (tf.reshape(each, [-1]) for each in (layer.mean, tf.sqrt(layer.variance)))
            self.there |= dict.fromkeys(behind, 1.0 / root)
            self.back |= self.there
            # As large as an image: to broadcast three numbers takes longer.
            whole = tf.broadcast_to(mean, layer.output.shape[1:])
            self.calls[layer] = lambda call, x, **_: x - whole

    def _convolutions_behind(self, layer) -> list:
        """The convolutions that see the output of a layer; empty if anything else sees it."""
        found = []
        for each in self.after.get(id(layer.output), [None]):
            if type(each) is keras.layers.ZeroPadding2D:
                found += self._convolutions_behind(each) or [None]
            else:
                found.append(each if _is_convolution(each) else None)
        return [] if None in found else found

    def _convolution(self, conv: keras.layers.Conv2D) -> Callable:
        scale, shift = self.behind.get(conv, (None, None))
        kernel = tf.convert_to_tensor(conv.kernel)
        kernel = kernel if scale is None else kernel * scale
        if conv.use_bias:
            shift = conv.bias * (1.0 if scale is None else scale) + (0.0 if shift is None else shift)
        there, back = (
            tf.cast(kernel * of[conv][:, tf.newaxis] if conv in of else kernel, conv.compute_dtype)
            for of in (self.there, self.back)
        )
        bias = None if shift is None else tf.cast(shift, conv.compute_dtype)
        settings: dict = {"strides": conv.strides, "padding": conv.padding.upper()}

        def called(call, x, **_):
            y = _convolved(settings, x, there, back)
            return y if bias is None else tf.nn.bias_add(y, bias)

        return called


def _is_convolution(layer) -> bool:
    return type(layer) is keras.layers.Conv2D and layer.groups == 1 and layer.dilation_rate == (1, 1)


def _unchanged(call, x, **_):
    return x


def _convolved(settings: dict, x, there, back):
    """A convolution whose gradient is that of another kernel."""

    @tf.custom_gradient
    def convolution(x):
        @tf.custom_gradient
        def backward(upstream):
            return tf.nn.conv2d_transpose(upstream, back, tf.shape(x), **settings), _no_second_derivative

        return tf.nn.conv2d(x, there, **settings), backward

    return convolution(x)


@tf.custom_gradient
def _shifted_without_slope(x, scale, shift):
    """`x * scale + shift`, whose backward pass leaves the scale to the convolutions."""
    return scaled_and_shifted(x, scale, shift), lambda upstream: (upstream, None, None)


def _no_second_derivative(*upstream):
    raise NotImplementedError("A folded network has no second derivative.")


def cheaper_gradients(victim: Victim, kind: str) -> Victim:
    """A victim whose attacks follow the gradient of its network folded, or folded and in bfloat16.

    The network itself, as it is, remains the judge. Its weights are read now.

    Args:
        victim: A victim of a Keras model of known layers.
        kind: One of `athe_tf.utils.choices.GRADIENTS`; `"model"` changes nothing.
    """
    if kind == "model":
        return victim
    network: Any = victim.network
    known = network is not None and victim.source is victim and not victim.copies and known_graph(network)
    check(
        known and all(called_once(layer) for layer in network.layers),
        f"gradients='{kind}' needs a functional Keras model with gradients of its own, whose layers are "
        f"called once each. Received: '{victim.name}'. Leave `gradients` out.",
    )
    network = _in_half_precision(network) if kind == "bfloat16" else network
    calls = list(_Folder(network).calls.items())
    name = f"{victim.name}, {kind}"

    def digest():
        found = victim.digest()
        return None if found is None else f"{found}, {kind}"

    source = keras_victim(network, find_head(network)).replace(name=name, digest=digest)
    return victim.replace(source=with_calls(source, calls))


def _in_half_precision(network: keras.Model) -> keras.Model:
    """A copy that computes in bfloat16 between the normalized pixels and the features."""
    whole = (keras.layers.InputLayer, keras.layers.Normalization, keras.layers.Dense, CosineDense)

    def copied(layer):
        half = {} if isinstance(layer, whole) else {"dtype": "mixed_bfloat16"}
        return type(layer).from_config(layer.get_config() | half)

    copy = keras.models.clone_model(network, clone_function=copied)
    copy.set_weights(network.get_weights())
    return copy
