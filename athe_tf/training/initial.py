"""Training that goes on from a model, as fine-tuning does."""

from athe_tf.errors import check
from athe_tf.saved_model import load_model
from athe_tf.workdir import find_model


def begin_with(trainer, path) -> None:
    """Gives the trainer's classifier, and its average, the weights of a model of the same architecture.

    Args:
        trainer: An `AdversarialModel`.
        path: A `.keras` file, or the folder of a run, which stands for its best model.
    """
    path = find_model(path)
    source = load_model(path)
    ours, theirs = (
        {weight.path: tuple(weight.shape) for weight in net.weights} for net in (trainer.net, source)
    )
    check(
        list(ours.items()) == list(theirs.items()),
        f"The model '{path}' has other weights than the one to train: {_difference(ours, theirs)}. "
        "Use a model of the same --model, --head and data set.",
    )
    for net in (trainer.net, trainer.averaged):
        if net is not None:
            net.set_weights(source.get_weights())


def _difference(ours: dict, theirs: dict) -> str:
    for name, shape in ours.items():
        if name not in theirs:
            return f"it has no '{name}'"
        if theirs[name] != shape:
            return f"its '{name}' has the shape {theirs[name]}, expected {shape}"
    extra = [name for name in theirs if name not in ours]
    return f"it has '{extra[0]}' besides" if extra else "they stand in another order"
