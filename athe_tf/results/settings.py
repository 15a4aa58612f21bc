"""The options of an evaluation that its result records: choices, defaults, help texts and checks.

An option that is added here is an argument of `EvaluationOptions`, a flag of `bin/evaluate`, an entry of
`settings` in `evaluation.json` if it was chosen, and a property in its schema.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from athe_tf.utils.options import json_schema, option

#: Packages that can repeat our attacks with independent code.
PEERS = ("art", "cleverhans", "foolbox")


@dataclasses.dataclass(frozen=True)
class LessCommonOptions:
    """What `EvaluationOptions` and `bin/evaluate` have in common; recorded in the result if chosen."""

    epsilons: Sequence[float] = option((), "Further radii for every attack, for a curve.", after="epsilon")
    verify_with: Sequence[str] = option((), f"Repeat FGSM and PGD-20 with: {', '.join(PEERS)}.")
    corruptions: str | None = option(
        None,
        "Also measure common corruptions: generated, folder:PATH with the genuine .npy or JPEG files, or a "
        "TensorFlow Datasets name. [generated with --protocol=corruptions, else none]",
    )
    corruption_resize: int | None = option(
        None, "Resize JPEG files of ImageNet-C to this before the crop; 256 in the HE paper's code.", above=0
    )
    margin: float | None = option(None, "Margin of training, for adaptive attacks. [the run's own]", least=0)
    logit_scale: str | float = option(
        "model", "Scale of hypersphere logits for attacks that depend on it: model, or a number."
    )
    probabilities: bool = option(False, "Attack the logarithms of a softmax that cannot be removed.")
    max_passes: int | None = option(
        None,
        "Stop each attack on an image after this many forward and backward passes.",
        above=0,
        after="max_examples",
    )


def settings_schema() -> dict[str, Any]:
    """The properties in the JSON Schema of `settings` in `evaluation.json`."""
    names = [field.name for field in dataclasses.fields(LessCommonOptions)]
    return {name: json_schema(LessCommonOptions, name) for name in names}
