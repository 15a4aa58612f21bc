"""What an evaluation is about."""

import dataclasses

import numpy as np

from athe_tf.attacks.engine.journal import PROBES, fingerprint
from athe_tf.attacks.engine.victim import Victim
from athe_tf.evaluation.clean import CleanPass, look_at_clean_images
from athe_tf.evaluation.model_diagnosis import Traits, find_traits


@dataclasses.dataclass
class Case:
    """A model, images, a threat model, and what is known before the first attack.

    Attributes:
        target: The model.
        images: `[N, H, W, C]` in [0, 1].
        labels: `[N]`.
        norm: Norm of the threat model.
        epsilon: Its radius.
        seed: Of the attacks.
        batch_size: Images that go through the model at once.
        clean: What the model makes of the clean images.
        traits: What is odd about the model.
    """

    target: Victim
    images: np.ndarray
    labels: np.ndarray
    norm: str
    epsilon: float
    seed: int
    batch_size: int
    clean: CleanPass
    traits: Traits

    @classmethod
    def open(cls, target: Victim, images, labels, norm: str, epsilon: float, seed: int, batch_size: int):
        """Looks at the model with the images as they are."""
        clean = look_at_clean_images(target, images, labels, batch_size)
        traits = find_traits(target, images, labels, clean.logits)
        return cls(target, images, labels, norm, epsilon, seed, batch_size, clean, traits)

    @property
    def classes(self) -> int:
        """How many classes the model knows."""
        return int(self.clean.logits.shape[1])

    def identity(self) -> dict:
        """What a state on the disk belongs to, the model aside."""
        return {
            "images and labels": fingerprint(self.images, self.labels),
            "examples": len(self.images),
            "norm": self.norm,
            "epsilon": self.epsilon,
            "seed": self.seed,
        }

    def first_logits(self) -> np.ndarray | None:
        """What tells the model from others; nothing does for one whose logits change from pass to pass."""
        return self.clean.logits[:PROBES] if self.traits.steady else None
