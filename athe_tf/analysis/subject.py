"""What an analysis works on: a model, images, an attack, and options that all share; and the function for it.

This package imports TensorFlow inside of functions, so that the options of analyses are known without it.
"""

import dataclasses
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from athe_tf.analysis.result import AnalysisResult
from athe_tf.utils.errors import InputError, check, check_integer
from athe_tf.utils.number_format import format_number
from athe_tf.utils.options import as_parameter

if TYPE_CHECKING:
    import tensorflow as tf

    from athe_tf.analysis.weights import WeightLoss
    from athe_tf.attacks.gradient import PGD
    from athe_tf.models.victim import Victim

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# The lines of a docstring about the first argument, by what an analysis needs, and about the next ones.
MODELS = {
    "logits": "A Keras model, or anything that `athe_tf.victim` takes.",
    "features": "A Keras model that ends in a linear `Dense` or a `CosineDense`.",
    "weights": "A Keras model.",
    "angles": "A Keras model with a hypersphere head (HE or m-HE).",
}
SHARED = {
    "data": "`(images, labels)`, a `tf.data.Dataset` of batches, or an image set of `athe_tf.data`.",
    "attack": "A PGD attack. Defaults to PGD-10 within 8/255.",
    "options": "Number of images and the like.",
}


@dataclasses.dataclass(frozen=True)
class AnalysisOptions:
    """How many images an analysis uses, and how.

    Example:

    >>> options = athe_tf.analysis.AnalysisOptions(max_examples=4, name="plain")
    >>> result = athe_tf.analysis.linearity(model, (x, y), attack, options, epsilons=(0.1,))

    Args:
        max_examples: Use only the first images, at most this many. Defaults to 256.
        batch_size: Images that go through the model at once. Defaults to 128.
        seed: Seed of attacks and random directions. Defaults to 0.
        name: The name of the model in pictures. Defaults to the model's own.
        class_names: The names of the classes in pictures. Defaults to their numbers.
        progress: Called with `(steps done, steps in all)`; the latter is `None` if it is not known. Defaults
            to `None`.
    """

    max_examples: int = 256
    batch_size: int = 128
    seed: int = 0
    name: str | None = None
    class_names: tuple[str, ...] | None = None
    progress: Callable[[int, int | None], None] | None = None

    def __post_init__(self):
        check_integer("max_examples", self.max_examples, 1)
        check_integer("batch_size", self.batch_size, 1)
        check_integer("seed", self.seed, 0)


class Subject:
    """A model with the images and the attack of an analysis.

    `MODELS` and `SHARED` describe the arguments that every analysis has.

    Args:
        kind: The class of the analysis, which decides what the model must have.
        own: The options of the analysis. Defaults to its defaults.
    """

    def __init__(
        self,
        kind: type[AnalysisResult],
        model,
        data,
        attack: "PGD | None" = None,
        options: AnalysisOptions | None = None,
        own=None,
    ):
        from athe_tf.attacks.gradient import PGD
        from athe_tf.evaluation.inputs import read_images

        own = own or kind.chosen({})
        self.analysis = kind.analysis
        self.options = options or AnalysisOptions()
        self.model = model
        self.victim = checked_victim(kind, own, model)
        self.attack = PGD(8 / 255, steps=10) if attack is None else attack
        check(
            isinstance(self.attack, PGD),
            "An analysis needs a gradient attack. Expected one such as athe_tf.attacks.PGD(epsilon=8/255, "
            f"steps=10). Received: {type(self.attack).__name__}.",
        )
        self.x, self.y = read_images(
            data, kind.used_images(own, self.options.max_examples), self.victim.num_classes
        )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def epsilon(self) -> float:
        """Radius of the attack."""
        return float(self.attack.threat.epsilon)

    @property
    def ball_text(self) -> str:
        """The ball of the attack, such as `linf, epsilon 8/255`."""
        return f"{self.attack.threat.norm}, epsilon {format_number(self.epsilon)}"

    def radii(self, *factors: float) -> tuple[float, ...]:
        """Multiples of the radius of the attack."""
        return tuple(factor * self.epsilon for factor in factors)

    def facts(self, **settings) -> dict:
        """What every result records: the model's name, the number of images, the settings."""
        return {
            "model": self.options.name or self.victim.name,
            "images": len(self),
            "settings": {
                "attack": f"{self.attack.name}-{self.attack.steps}, {self.ball_text}",
                "seed": self.options.seed,
                **settings,
            },
        }

    def class_names(self, count: int) -> tuple[str, ...]:
        """The names of this many classes; numbers if they have no names."""
        names = self.options.class_names or ()
        return tuple(names[i] if i < len(names) else str(i) for i in range(count))

    def batches(self) -> Iterator[tuple]:
        """`(images, labels, positions)`, with progress after each."""
        return self.track(self.untracked_batches(), math.ceil(len(self) / self.options.batch_size))

    def untracked_batches(self) -> Iterator[tuple]:
        """`(images, labels, positions)`, for an analysis that counts other steps."""
        import tensorflow as tf

        for start in range(0, len(self), self.options.batch_size):
            part = slice(start, start + self.options.batch_size)
            x = tf.convert_to_tensor(self.x[part])
            yield x, tf.convert_to_tensor(self.y[part]), tf.range(start, start + len(x), dtype=tf.int64)

    def track(self, items: Iterable, total: int) -> Iterator:
        """The items, and a call of the progress function after each."""
        for done, item in enumerate(items, 1):
            yield item
            self.report(done, total)

    def report(self, done: int, total: int | None = None) -> None:
        """Calls the progress function, if there is one."""
        if self.options.progress is not None:
            self.options.progress(done, total)

    def adversarial(self, x, y, ids, attack: "PGD | None" = None, against: "Victim | None" = None):
        """Adversarial images of a batch: the last iterate of the attack."""
        attack = attack or self.attack
        return attack(against or self.victim, x, y, ids=ids, seed=self.options.seed)

    def all_adversarial(self, attack: "PGD | None" = None, against: "Victim | None" = None) -> np.ndarray:
        """Adversarial images of all images."""
        found = np.empty_like(self.x)
        for x, y, ids in self.batches():
            found[ids[0] : ids[0] + len(x)] = self.adversarial(x, y, ids, attack, against).numpy()
        return found

    def predicted(self, x, by: "Victim | None" = None) -> np.ndarray:
        """Logits of images, batch by batch."""
        import tensorflow as tf

        size, logits = self.options.batch_size, (by or self.victim).compiled_logits
        parts = [logits(tf.convert_to_tensor(x[i : i + size])).numpy() for i in range(0, len(x), size)]
        return np.concatenate(parts)

    def accuracy(self, attack: "PGD") -> float:
        """Accuracy under an attack, any iterate of which may succeed."""
        size, seed = self.options.batch_size, self.options.seed
        result = attack.run(self.victim, self.x, self.y, seed=seed, batch_size=size)
        return 1.0 - float(result.success.mean())

    def weight_loss(self, x) -> "WeightLoss":
        """The mean loss of images, in the order of the labels, as a function of the weights."""
        from athe_tf.analysis.weights import WeightLoss

        return WeightLoss(self.model, x, self.y, self.options.batch_size)

    def unit_perturbations(self, delta) -> np.ndarray:
        """Perturbations `[N, H, W, C]`, scaled to length one in the norm of the attack."""
        import tensorflow as tf

        from athe_tf.threat import TINY, per_example

        delta = tf.convert_to_tensor(delta, tf.float32)
        return (delta / per_example(tf.maximum(self.attack.threat.length(delta), TINY))).numpy()

    def random_signs(self, seed: int) -> np.ndarray:
        """One perturbation `[1, H, W, C]` of random signs, of length one in the norm of the attack."""
        rng, shape = np.random.default_rng(seed), (1, *self.x.shape[1:])
        return self.unit_perturbations(rng.choice(np.array([-1.0, 1.0], np.float32), size=shape))

    def class_weights(self) -> "tf.Tensor":
        """The class weights as the head uses them, one column per class."""
        import tensorflow as tf

        from athe_tf.layers.cosine_dense import CosineDense

        head = self.victim.head
        if isinstance(head, CosineDense):
            check(
                head.sub_centers == 1,
                f"{self.analysis} needs one weight vector per class. Received: a head with "
                f"sub_centers={head.sub_centers}. Use a model whose head has one.",
            )
            return tf.cast(head.class_directions(), tf.float32)
        return tf.cast(tf.convert_to_tensor(head.kernel), tf.float32)


def checked_victim(kind: type[AnalysisResult], own, model) -> "Victim":
    """The model as a victim; raises `InputError` unless it has what the analysis needs."""
    import keras

    from athe_tf.evaluation.measures import ANGULAR_HEADS, head_of
    from athe_tf.saving.opening import victim

    found, needs = victim(model), kind.requirement(own)
    if needs in ("features", "angles"):
        found.require_features(kind.analysis)
        found.require_head(kind.analysis)
    if needs == "angles" and head_of(found) not in ANGULAR_HEADS:
        raise InputError(
            f"Angles need a hypersphere head: one of {list(ANGULAR_HEADS)}. Received: '{found.name}' with "
            f"head '{head_of(found)}'. Convert the model with athe_tf.models.to_hypersphere."
        )
    if needs == "weights" and not isinstance(model, keras.Model):
        raise InputError(
            f"{kind.analysis} needs the weights of a Keras model. Received: {type(model).__name__} "
            f"'{found.name}'. Give a .keras file."
        )
    return found


class AnalysisFunction(Protocol[P, R_co]):
    """What type checkers see: the arguments of all analyses, then the options of one."""

    def __call__(
        self, model, data, attack=None, options: AnalysisOptions | None = None, *args: P.args, **own: P.kwargs
    ) -> R_co: ...


def function_of(compute: Callable[Concatenate[Subject, P], R]) -> AnalysisFunction[P, R]:
    """The function that runs an analysis, given the `compute` of its class."""
    kind: Any = compute.__self__  # type: ignore[attr-defined]  # a class method

    def function(model, data, attack=None, options: AnalysisOptions | None = None, **own):
        chosen = kind.chosen(own)
        return kind.compute(Subject(kind, model, data, attack, options, chosen), **vars(chosen))

    fields = dataclasses.fields(kind.options)
    shared = list(inspect.signature(function).parameters.values())[:-1]
    arguments = [*shared, *map(as_parameter, fields)]
    function.__signature__ = inspect.Signature(arguments, return_annotation=kind)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = kind.analysis
    function.__module__ = kind.__module__
    # The docstring of `compute`, with the example of the class and the arguments.
    text, reference, source = (inspect.getdoc(compute) or "").partition("\n\nReference:")
    example = (inspect.getdoc(kind) or "").partition("Example:\n\n")[2].partition("\n\nArgs:")[0]
    lines = {"model": MODELS[kind.needs], **SHARED, **{field.name: _described(field) for field in fields}}
    described = [
        textwrap.fill(f"{name}: {line}", 110, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for name, line in lines.items()
    ]
    parts = [text, "\nExample:\n", example, "\nArgs:", *described]
    function.__doc__ = "\n".join(parts) + reference + source
    return cast(AnalysisFunction[P, R], function)


def _described(field: dataclasses.Field) -> str:
    choices, default = field.metadata["choices"], field.default
    one_of = f" One of {', '.join(map(repr, choices))}." if choices else ""
    return field.metadata["help"] + one_of + ("" if default is None else f" Defaults to {default!r}.")
