"""The options of an evaluation: choices, defaults, help texts and checks, without TensorFlow.

`bin/evaluate` and `EvaluationOptions` are derived from these tables and from `LessCommonOptions`, whose
values a result records.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from athe_tf.evaluation.protocols import PROTOCOLS
from athe_tf.jobs.shard import Shard
from athe_tf.results.attack_outcome import AttackOutcome as AttackOutcome  # public here, without TensorFlow
from athe_tf.results.file_format import PEERS, LessCommonOptions
from athe_tf.results.result import Result as Result
from athe_tf.utils.choices import NORMS, parse_logit_scale
from athe_tf.utils.errors import check
from athe_tf.utils.number_format import format_number
from athe_tf.utils.options import check_options, chosen_values, option, seed_option
from athe_tf.utils.registry import unknown_name


def check_peers(names: Sequence[str]) -> None:
    """Raises `InputError`, with the nearest known name, unless all names are in `PEERS`."""
    for name in names:
        if name not in PEERS:
            raise unknown_name("package to verify with", name, PEERS)


@dataclasses.dataclass(frozen=True)
class CommonOptions:
    """What `athe_tf.evaluate` takes as arguments of its own."""

    protocol: str | None = option(None, f"A named set of attacks: {', '.join(PROTOCOLS)}. [quick]")
    attacks: tuple[str, ...] = option((), "Attacks by name instead, such as fgsm,pgd-20.")
    norm: str | None = option(None, "Norm. [the protocol's, the run's own, or linf]", choices=NORMS)
    epsilon: float | None = option(None, "Radius. [the protocol's, the run's own, or 8/255]")
    max_examples: int | None = option(None, "Evaluate only the first N images.", gt=0)
    batch_size: int = option(128, "Images that go through the model at once, on each device.", gt=0)
    seed: int = seed_option("Seed of the attacks.")
    checks: bool = option(True, "Run the sanity checks: about 400 passes of 200 images.")


@dataclasses.dataclass(frozen=True)
class EvaluationOptions(LessCommonOptions):
    """Settings of `athe_tf.evaluate` that most evaluations do not need.

    Example:

    >>> options = athe_tf.evaluation.EvaluationOptions(epsilons=(4 / 255, 16 / 255), state="runs/state")
    >>> result = athe_tf.evaluate(net, (images, labels), attacks=["pgd-20"], options=options)

    Args:
        epsilons: Further radii. Every attack is run at each of them, which gives a curve of accuracy over
            epsilon. Defaults to none.
        norms: Several threat models, such as `("linf:8/255", "l2:0.5", "l1:12")`. Every attack is run in each
            of them; the first is that of the headline, of `epsilons` and of the sanity checks. Defaults to
            none: `norm` and `epsilon`.
        verify_with: Packages that repeat FGSM and PGD-20 on the same images: `"cleverhans"`, `"foolbox"`,
            `"art"`. Defaults to none.
        substitutes: Other models for the protocol `"transfer"`: a mapping from names to models or paths.
        corruptions: Measure the accuracy under common corruptions too: `"generated"`, `"folder:PATH"` with
            published files, or the name of a data set in TensorFlow Datasets. Defaults to `None`.
        corruption_resize: Resize the published files of ImageNet-C to this before the crop of the model's
            size. Defaults to `None`: unchanged.
        data_dir: Where TensorFlow Datasets keeps its data. Defaults to its own choice.
        margin: The margin that a hypersphere model was trained with, for adaptive attacks. Defaults to what
            the model's card says, or to 0.2 for the head `"he"`, 0.1 for `"mhe"` and 0 for others.
        logit_scale: The scale of the logits for attacks whose loss depends on it: `"model"`, or a number in
            place of a hypersphere head's scale. 1 is how the HE paper measured. Attacks of a protocol that
            have a scale of their own keep it. Defaults to `"model"`.
        straight_through: Names of layers without a gradient, such as rounding, that attacks pass backward
            through; see `athe_tf.models.straight_through`. Defaults to none.
        gradients: Where attacks take their gradients from: `"model"`, `"folded"` (convolutions with the batch
            normalization behind them) or `"bfloat16"` (folded, in half precision). An image is broken only if
            the model itself errs. Defaults to `"model"`.
        random_passes: An image of a randomized model is broken if more than half of so many fresh passes are
            wrong. Defaults to 16; models that are not randomized are not affected.
        gradient_passes: Average the gradients of every attack on a randomized model over so many passes.
            Defaults to 1.
        probabilities: The model ends with a softmax that cannot be removed: attack the logarithms of its
            outputs. Defaults to `False`, which refuses such a model.
        max_passes: Largest number of forward and backward passes per image in each attack; see `Attack.run`.
            Defaults to `None`: no limit.
        jit_compile: Compile the attacks by XLA, for accelerators; see `Attack.run`. An attack that XLA cannot
            compile is reported as not run. Defaults to `False`.
        name: The name of the model in the result. Defaults to the model's own.
        dataset: The name of the data in the result.
        state: A folder that keeps the state of the evaluation. The same call, made again after an
            interruption, resumes from there and returns the same result. The state of another model, of other
            images or settings, or of another version of athe_tf is refused. A model that contains Python
            functions cannot be recognized again: it is evaluated without a state, with a warning. Defaults to
            `None`.
        shard: Attack only a share of the images, such as `"3/8"`, on one of several machines: needs `state`.
            The result covers these images, without checks. Defaults to `None`: all images.
        shards: The `state` folders of all shards, in their order: what their attacks found is read and
            merged, and everything else is measured here. Defaults to none.
        progress: Called after every batch with an `EvaluationProgress`.
        finished: Called with the `AttackOutcome` of every attack as soon as it is known.
    """

    substitutes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data_dir: Any = None
    name: str | None = None
    dataset: str = "data"
    state: Any = None
    shard: Shard | str | None = None
    shards: Sequence[Any] = ()
    progress: Callable | None = None
    finished: Callable | None = None

    def __post_init__(self):
        check_options(self, table=LessCommonOptions)
        check_peers(self.verify_with)
        object.__setattr__(self, "logit_scale", parse_logit_scale(self.logit_scale))
        for radius in self.epsilons:
            received = f"Received: {format_number(radius)}. The clean accuracy is part of every curve."
            check(radius > 0, f"Every value of `epsilons` must be larger than 0. {received}")
        check(
            isinstance(self.substitutes, Mapping),
            f"Expected `substitutes` to map names to models. Received: {self.substitutes!r}.",
        )
        if isinstance(self.shard, str):
            object.__setattr__(self, "shard", Shard.parse(self.shard))
        check(
            self.shard is None or (self.state is not None and not self.shards),
            "A shard is merged with the others later, from its state. Expected a `state` folder, and no "
            f"`shards`. Received: shard={self.shard}, state={self.state}, shards={list(self.shards)}.",
        )

    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults, for `settings` of the result."""
        return chosen_values(LessCommonOptions, self)
