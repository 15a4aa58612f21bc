"""How a model without gradients is evaluated that was made of one with gradients: ONNX and LiteRT files."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from athe_tf import attacks
from athe_tf.attacks.engine.attack import Attack
from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.evaluator import evaluate
from athe_tf.evaluation.images import read_images
from athe_tf.evaluation.result import Result
from athe_tf.evaluation.transferred_attack import TransferredAttack

#: Attacks on the parent whose images are tried on the file.
ON_PARENT = ("apgd-ce", "apgd-t")
#: Attacks on the file itself.
ON_FILE = ("square-1000", "rays-1000")

WITHOUT_PARENT = (
    "The model is a file without gradients, and only attacks that need its outputs were run. They find fewer "
    "adversarial examples than gradients do. Give the model that it was made of as the parent."
)


@dataclasses.dataclass(frozen=True)
class ConvertedModel:
    """A file without gradients and its parent, the model that it was made of.

    Attributes:
        parent: The model with gradients, or `None` if there is none.
        epsilon: Radius of the threat model.
        norm: Its norm.
        seed: Seed of the attacks.
        batch_size: Images per forward pass.
        max_examples: Use only the first images; `None` for all.
    """

    parent: Victim | None
    epsilon: float
    norm: str
    seed: int = 0
    batch_size: int = 128
    max_examples: int | None = None

    def attacks(self, on_file: Sequence[str] = ()) -> list[Attack | str]:
        """The strongest attacks on the parent, tried on the file, and attacks on the file itself."""
        return [*self._transferred(), *(on_file or ON_FILE)]

    def _transferred(self) -> list[Attack]:
        if self.parent is None:
            return []
        sources = [attacks.get(name, epsilon=self.epsilon, norm=self.norm) for name in ON_PARENT]
        return [TransferredAttack(source, self.parent) for source in sources]

    def remarks(self, result: Result, victim: Victim, data) -> list[str]:
        """What a reader must know: the parent's numbers, how far the file is from it, possible masking.

        Args:
            result: The evaluation of the file.
            victim: The file.
            data: The images of the evaluation.
        """
        if self.parent is None:
            return [WITHOUT_PARENT]
        pair = read_images(data, self.max_examples, victim.num_classes)
        of_parent = evaluate(
            self.parent,
            pair,
            attacks=[*ON_PARENT, ON_FILE[0]],
            epsilon=self.epsilon,
            norm=self.norm,
            batch_size=self.batch_size,
            seed=self.seed,
            checks=False,
        )
        return [
            _distance(self._logits(victim, pair[0]), self._logits(self.parent, pair[0])),
            f"The parent '{self.parent.name}' itself: {of_parent.clean_accuracy:.1%} clean, "
            f"{of_parent.worst_case_accuracy:.1%} under {', '.join([*ON_PARENT, ON_FILE[0]])}.",
            *_masking(result.worst_case_accuracy, of_parent.worst_case_accuracy),
        ]

    def _logits(self, victim: Victim, images) -> np.ndarray:
        return np.concatenate([np.asarray(part) for _, part in clean_logits(victim, images, self.batch_size)])


def _distance(logits: np.ndarray, of_parent: np.ndarray) -> str:
    moved = np.abs(logits - of_parent)
    same = np.mean(logits.argmax(axis=1) == of_parent.argmax(axis=1))
    return (
        f"On clean images, the file and its parent predict the same class for {same:.1%}; logits differ by "
        f"{moved.mean():.2g} on average and by at most {moved.max():.2g}."
    )


def _masking(accuracy: float | None, of_parent: float | None) -> list[str]:
    """A warning if the file seems more robust than the model that it was made of."""
    if accuracy is None or of_parent is None or accuracy <= of_parent:
        return []
    return [
        f"The file seems more robust than its parent ({accuracy:.1%} against {of_parent:.1%}). This may be "
        "gradient masking: rounding hides gradients, and attacks without them are weaker. Quote the parent's "
        "number."
    ]
