"""Training that starts from the weights of another model."""

import keras

from athe_tf.models.card import describe
from athe_tf.programs.workdir import find_initial_model
from athe_tf.saving.keras_file import load_model
from athe_tf.utils.errors import check


def start_from(trainer, path: str) -> None:
    """Gives the trainer's classifier, and its average, the weights of a model of the same architecture.

    Args:
        trainer: An `AdversarialModel`.
        path: A `.keras` file, or the folder of a run, which means its best model.
    """
    file = find_initial_model(path)
    source = load_model(file)
    difference = first_difference(signature(trainer.net), signature(source))
    check(
        difference is None,
        f"The model '{file}' is not the same as the one to train: {difference}. Use one with "
        "the same --model, --head, --scale, --activation and data set.",
    )
    for net in (trainer.net, trainer.averaged):
        if net is not None:
            net.set_weights(source.get_weights())


def first_difference(ours: dict, theirs: dict) -> str | None:
    """The first difference between two signatures, in words; `None` if there is none."""
    for name, expected in ours.items():
        if name not in theirs:
            return f"it has no {name}"
        if theirs[name] != expected:
            return f"its {name} is {theirs[name]}, expected {expected}"
    besides = [name for name in theirs if name not in ours]
    return f"it also has {besides[0]}" if besides else None


def signature(net: keras.Model) -> dict:
    """The properties that two models must share to exchange weights, by name."""
    card = describe(net)
    found = {name.replace("_", " "): card[name] for name in ("input_shape", "num_classes", "head", "scale")}
    for name, values in (card["normalization"] or {}).items():
        # Float32 and float64 round the same numbers differently.
        found[f"{name} of the pixels"] = [round(value, 5) for value in values]
    found["activation"] = ", ".join(sorted({_activation(layer) for layer in net.layers} - {""}))
    return found | {f"weight '{weight.path}'": tuple(weight.shape) for weight in net.weights}


def _activation(layer) -> str:
    """The name of a layer's nonlinearity; empty if it has none."""
    if isinstance(layer, keras.layers.LeakyReLU):
        return "leaky_relu"
    function = getattr(layer, "activation", None)
    return "" if function in (None, keras.activations.linear) else function.__name__
