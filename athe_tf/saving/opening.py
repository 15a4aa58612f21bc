"""`open_model`: the one way to open what a user calls a model, and `victim`, what an attack sees of it."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

from athe_tf.conversion.runtime_model import open_runtime_model
from athe_tf.models.adapters import with_input_range
from athe_tf.models.builder import call_builder, is_builder
from athe_tf.models.features import known_graph
from athe_tf.models.victim import Victim, in_range, victim_of
from athe_tf.saving.keras_file import load_model
from athe_tf.saving.names import find_model, is_imported
from athe_tf.saving.saved_model import saved_model_victim
from athe_tf.utils.choices import RUNTIME_SUFFIXES, check_statistics
from athe_tf.utils.errors import check
from athe_tf.utils.registry import import_object


@dataclasses.dataclass(frozen=True)
class OpenedModel:
    """A model that was opened.

    Example:

    >>> opened = athe_tf.saving.open_model(net)
    >>> opened.net is net, opened.card
    (True, {})

    Attributes:
        source: What the user named: a name, a path, or the object itself.
        victim: The model as attacks see it, for images in [0, 1].
        net: The same as a Keras model, or `None` if it is none.
    """

    source: Any
    victim: Victim
    net: keras.Model | None = None

    @property
    def card(self) -> dict[str, Any]:
        """The card that lies beside the file or in the folder; empty if there is none."""
        return self.victim.facts

    @property
    def digest(self) -> str | None:
        """A text that identifies the model and its weights as they are now; `None` if there is none."""
        return self.victim.digest()


def open_model(
    model,
    *,
    input_range: Sequence[float] = (),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    num_classes: int | None = None,
    data: tuple[int, tuple[int, ...]] | None = None,
    from_keras: Callable[[keras.Model], Victim] = victim_of,
) -> OpenedModel:
    """Opens a model: a file, a folder, a name, or an object.

    SavedModels, `.keras`, `.onnx` and `.tflite` files are programs: open only those whose origin you trust.

    Example:

    >>> opened = athe_tf.saving.open_model("zoo:cifar10-fast-at-he-wrn10-1")
    >>> opened.net.output_shape, opened.victim.scale
    ((None, 10), 15.0)

    Args:
        model: The path of a `.keras`, `.onnx` or `.tflite` file, of a SavedModel, or of a training run, which
            means its best model; `zoo:NAME`; `module:function`; a Keras model, a callable from images to
            logits, or a `Victim`.
        input_range: The values of pixels that the model expects. Defaults to `()`: 0 to 1.
        mean: The mean of the pixels, in that range, by which the model expects them normalized, per channel.
            Defaults to `()`: it normalizes them itself.
        std: Their standard deviation; goes with `mean`.
        num_classes: For callables, which do not say it themselves.
        data: The number of classes and the shape of images, for a `module:function` that builds a Keras
            model with these, or without arguments. Defaults to `None`: not known.
        from_keras: Makes a victim of a Keras model. Defaults to one in inference mode.
    """
    found = model
    if isinstance(model, (str, pathlib.Path)):
        found = _imported(str(model), data) if is_imported(model) else _read(find_model(model))
    net = found if isinstance(found, keras.Model) else None
    check_statistics(mean, std)
    outside = bool(input_range or mean)
    if outside and known_graph(net):
        net, outside = with_input_range(net, input_range or (0.0, 1.0), mean, std), False
    victim = victim_of(found, num_classes) if net is None else from_keras(net)
    if outside:
        statistics: dict[str, Any] = {"mean": list(mean), "std": list(std)} if mean else {}
        net, victim = None, in_range(victim, *(input_range or (0.0, 1.0)), **statistics)
        if statistics:
            victim.facts = victim.facts | {"normalization": statistics}
    return OpenedModel(model, victim, net)


def _imported(name: str, data) -> Any:
    """What `module:function` names; what it returns, if it builds a Keras model."""
    found = import_object(name, "model")
    if not is_builder(found):
        return found
    net = call_builder(found, *(data or (None, None)))
    check(
        isinstance(net, keras.Model),
        f"The function '{name}' takes no images. Expected: a function from images to logits, or one that "
        f"returns a `keras.Model`. Received: {net!r}.",
    )
    return net


def _read(path: pathlib.Path) -> keras.Model | Victim:
    if path.suffix in RUNTIME_SUFFIXES:
        return open_runtime_model(path)
    return saved_model_victim(path) if path.is_dir() else load_model(path)


def victim(model, *, num_classes: int | None = None) -> Victim:
    """Makes a `Victim` from anything that maps images to logits, in inference mode.

    The same model gives the same victim as long as it lives, so attacks are compiled once for it.

    Example:

    >>> athe_tf.victim(lambda x: x[:, 0, 0, :], num_classes=3).num_classes
    3

    Args:
        model: A Keras model that outputs logits, a function from images to logits, a path or a name that
            `athe_tf.saving.open_model` takes, or a `Victim`, which is returned unchanged.
        num_classes: For callables, which do not say it themselves.
    """
    return open_model(model, num_classes=num_classes).victim
