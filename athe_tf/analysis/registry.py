"""The analyses by name, and their JSON files; readable without TensorFlow.

A new analysis is one new file and one entry here.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from athe_tf.analysis.angles import Angles
from athe_tf.analysis.attack_steps import AttackSteps, TrainingSteps
from athe_tf.analysis.attack_with_fn import AttackWithFN
from athe_tf.analysis.class_bias import ClassBias
from athe_tf.analysis.decision_map import DecisionMap
from athe_tf.analysis.fn_direction import FNDirection
from athe_tf.analysis.gradient_ratio import GradientRatio
from athe_tf.analysis.gradient_scattering import GradientScattering
from athe_tf.analysis.hessian import Hessian
from athe_tf.analysis.landscape import Landscape
from athe_tf.analysis.linearity import Linearity
from athe_tf.analysis.overlap import Overlap
from athe_tf.analysis.perturbations import Perturbations
from athe_tf.analysis.result import AnalysisResult, Comparison, Picture
from athe_tf.utils.errors import InputError, unreadable
from athe_tf.utils.files import write_text

#: From the name of each analysis of one model to its class.
ANALYSES: dict[str, type[AnalysisResult]] = {
    one.analysis: one
    for one in (
        GradientRatio, ClassBias, Angles, AttackWithFN, FNDirection, AttackSteps, Perturbations, Linearity,
        Hessian, Landscape, GradientScattering, DecisionMap,
        Overlap,
    )
}  # fmt: skip
#: The analysis of several training runs at once.
RUN_ANALYSES: dict[str, type[AnalysisResult]] = {"training_steps": TrainingSteps}
#: All of them.
ALL_ANALYSES = ANALYSES | RUN_ANALYSES


def read(path) -> AnalysisResult | Comparison:
    """Reads the file of an analysis, to draw it again.

    Example:

    >>> result = athe_tf.analysis.linearity(model, (x, y), attack, epsilons=(0.1,))
    >>> athe_tf.analysis.write("linearity.json", result)
    >>> axes = athe_tf.analysis.read("linearity.json").plot()

    Args:
        path: The JSON file.
    """
    results = [from_entry(entry) for entry in read_content(path)["models"]]
    return results[0] if len(results) == 1 else Comparison(results)


def write(
    path, result: Picture, identities: Sequence[dict | None] = (), pictures: Sequence[str] = ()
) -> None:
    """Writes the result of one model, or of several, to a JSON file.

    Example:

    >>> result = athe_tf.analysis.linearity(model, (x, y), attack, epsilons=(0.1,))
    >>> athe_tf.analysis.write("linearity.json", result)

    Args:
        path: The JSON file, which is replaced atomically.
        result: What an analysis or `compare` returned.
        identities: For each model, what its result depends on. Defaults to nothing.
        pictures: The names of the pictures in the same folder. Defaults to none.
    """
    entries = [one.to_dict() for one in result.results]
    for entry, identity in zip(entries, identities, strict=False):
        entry["identity"] = identity
    content = {
        "athe_tf": "analysis",
        "analysis": result.results[0].analysis,
        "summary": result.results[0].summary,
        "caption": result.caption,
        "pictures": list(pictures),
        "models": entries,
    }
    write_text(path, _json(content))


def _json(content: dict[str, Any]) -> str:
    """JSON with a line per entry, and a line per model: arrays of images have many numbers."""
    models = ",\n".join(f"  {json.dumps(entry, allow_nan=False)}" for entry in content["models"])
    others = [f" {json.dumps(key)}: {json.dumps(content[key])}" for key in content if key != "models"]
    return "{\n" + ",\n".join([*others, f' "models": [\n{models}\n ]']) + "\n}\n"


def read_content(path) -> dict[str, Any]:
    """The content of a file, with at least one model; raises `InputError` if it is not of an analysis."""
    path = pathlib.Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = content["athe_tf"] == "analysis" and content["analysis"] in ALL_ANALYSES
        entries = content["models"]
        if not (known and entries and all(one["analysis"] == content["analysis"] for one in entries)):
            raise ValueError("it does not name an analysis and its models")
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InputError(
            f"'{path}' is not the file of an analysis: {error}. Give one that athe_tf.analysis.write wrote."
        ) from error
    return content


def from_entry(entry: dict[str, Any]) -> AnalysisResult:
    """The result of one model from its plain values."""
    kind = ALL_ANALYSES[entry["analysis"]]
    try:
        return kind.from_dict(entry)
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"These are not the values of {entry['analysis']}: {error!r}. Run the analysis again."
        ) from error
