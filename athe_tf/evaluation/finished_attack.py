"""`FinishedAttack`: what an attack found for each image, from which its outcome is computed."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from athe_tf.attacks.engine.results import PER_IMAGE, AttackResult, Stage
from athe_tf.evaluation.adversarial_examples import KEPT, Examples
from athe_tf.utils.errors import InputError


@dataclasses.dataclass
class FinishedAttack:
    """What an attack found on some of the images of an evaluation.

    Attributes:
        result: The result for each of them; its adversarial images are not kept.
        eight_bit: Whether each has an adversarial example that is still one at 8 bits.
        seconds: Wall-clock time.
        examples: The first adversarial examples.
        not_run: Why it could not be run; then there is no result.
    """

    result: AttackResult | None = None
    eight_bit: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))
    seconds: float = 0.0
    examples: Examples = dataclasses.field(default_factory=dict)
    not_run: str | None = None


def merged(parts: Sequence[FinishedAttack], rows: Sequence[np.ndarray]) -> FinishedAttack:
    """What an attack found on all images, from what it found on parts of them.

    Args:
        parts: What was found on each part.
        rows: The positions of the images of each part in the whole set.
    """
    missed = next((part for part in parts if part.not_run is not None), None)
    if missed is not None:  # in another part, perhaps, no image had to be attacked
        return missed
    results = [part.result for part in parts if part.result is not None]
    if len({tuple(map(_name, result.stages)) for result in results}) != 1:
        raise InputError(
            "The parts were attacked by different cascades. Expected the same stages. Received: "
            f"{[[stage.name for stage in result.stages] for result in results]}. Run them again."
        )
    order = np.argsort(np.concatenate(rows))

    def joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(arrays))[order]

    per_image: dict[str, Any] = {name: joined(getattr(r, name) for r in results) for name in PER_IMAGE}
    whole = AttackResult(
        x_adv=results[0].x_adv,
        **per_image,
        stages=[_together(stages) for stages in zip(*(result.stages for result in results), strict=True)],
        memory={name: joined(r.memory[name] for r in results) for name in results[0].memory},
    )
    return FinishedAttack(
        whole,
        joined(part.eight_bit for part in parts),
        sum(part.seconds for part in parts),
        _first_examples([part.examples for part in parts]),
    )


def _name(stage: Stage) -> tuple[str, int, int]:
    return stage.name, stage.first, stage.rounds


def _together(stages: Sequence[Stage]) -> Stage:
    return dataclasses.replace(stages[0], seconds=sum(stage.seconds for stage in stages))


def _first_examples(parts: Sequence[Examples]) -> Examples:
    """The first ones in the whole set, of the first ones in each part."""
    first = np.argsort(np.concatenate([part["index"] for part in parts]))[:KEPT]
    return {name: np.concatenate([part[name] for part in parts])[first] for name in parts[0]}
