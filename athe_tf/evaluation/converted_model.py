"""Evaluation of a file for another runtime (ONNX, LiteRT): the file judges, another model has the gradients.

That is the parent, the model that the file was made of; without it, the twin, the Keras model that is made of
an ONNX file when it is opened.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from athe_tf.attacks.engine.driver import clean_logits
from athe_tf.conversion.runtime_model import NOT_CONVERTED
from athe_tf.evaluation.evaluator import DEFAULT_EPSILON, evaluate
from athe_tf.evaluation.inputs import open_images
from athe_tf.evaluation.options import CommonOptions, EvaluationOptions
from athe_tf.evaluation.protocols import AttackSpec
from athe_tf.models.victim import Victim
from athe_tf.results.notices import Notice
from athe_tf.results.result import Result
from athe_tf.saving.opening import open_model
from athe_tf.utils.errors import check
from athe_tf.utils.options import check_arguments

#: Attacks that follow the gradients of the parent, and count where the file errs.
ON_PARENT = ("apgd-ce", "apgd-t")
#: Attacks on the file itself.
ON_FILE = ("square-1000", "rays-1000")

BY_PARENT = "follows the parent's gradients, whose passes are counted; an image counts if the file errs on it"
WITHOUT_PARENT = Notice(
    "The model is a file without gradients, and only attacks that need its outputs were run. They find fewer "
    "adversarial examples than gradients do. Give the model that it was made of as the parent.",
    id="no-parent",
)


def evaluate_converted(
    model,
    data,
    *,
    parent=None,
    attacks: Sequence[str] | None = None,
    protocol: str | None = None,
    epsilon: float = DEFAULT_EPSILON,
    norm: str = "linf",
    max_examples: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    checks: bool = True,
    options: EvaluationOptions | None = None,
) -> Result:
    """Measures how robust an `.onnx` or `.tflite` file is.

    The strongest attacks follow the gradients of the parent, and succeed where the file errs: the file is the
    judge, the parent the gradient source. Attacks without gradients are run on the file itself. The parent is
    evaluated under the same attacks: `result.conversion` compares the two, and a
    warning is added if the file seems more robust than its parent. Without a parent, the gradients of an ONNX
    file are those of its twin, a Keras model that is made of the file: all attacks and protocols can be run.

    Example:

    >>> card = athe_tf.saving.convert(net, "net.tflite", "litert")
    >>> settings = {"parent": net, "attacks": ["square-50"], "epsilon": 0.1, "checks": False}
    >>> result = athe_tf.evaluation.evaluate_converted("net.tflite", (images, labels), **settings)
    >>> result.conversion["same_predictions"]
    1.0

    Args:
        model: The file, or a `Victim` made of it.
        data: Images and labels, as for `athe_tf.evaluate`.
        parent: The model that the file was made of; anything that `athe_tf.evaluate` takes. Defaults to
            `None`: its twin is the gradient source. If the file has none, only attacks that need outputs are
            run, and a warning says so.
        attacks: Attacks on the file. Defaults to Square and RayS with 1,000 queries each, and with a twin to
            those of `athe_tf.evaluate`.
        protocol: A protocol instead of attacks, for a file with a twin.
        epsilon: Radius of the threat model. Defaults to 8/255.
        norm: Its norm. Defaults to `"linf"`.
        max_examples: Use only the first images, at most this many. Defaults to `None`: all.
        batch_size: Images per forward pass. Defaults to 128.
        seed: Seed of the attacks. Defaults to 0.
        checks: Whether to run the sanity checks. Defaults to `True`.
        options: Less common settings, as for `athe_tf.evaluate`.
    """
    check_arguments(CommonOptions, max_examples=max_examples, batch_size=batch_size, seed=seed)
    options = options or EvaluationOptions()
    victim = open_model(model).victim
    images = open_images(data, max_examples, victim.num_classes)
    threat: dict[str, Any] = {"epsilon": epsilon, "norm": norm, "batch_size": batch_size, "seed": seed}
    twin = parent is None and victim.source is not victim
    check(
        protocol is None or twin,
        f"The protocol '{protocol}' needs gradients, and the file '{victim.name}' has no Keras model that "
        "is made of it. Name attacks that need outputs only, such as square and rays.",
    )
    if twin:
        rest: dict[str, Any] = {
            "attacks": attacks,
            "protocol": protocol,
            "checks": checks,
            "options": options,
        }
        return _with_twin(victim, images, evaluate(victim, images, **rest, **threat), batch_size)
    attacks = ON_FILE if attacks is None else attacks
    if parent is None:
        result = evaluate(victim, images, attacks=attacks, checks=checks, options=options, **threat)
        reason = victim.facts.get(NOT_CONVERTED)
        without = WITHOUT_PARENT if reason is None else Notice(f"{WITHOUT_PARENT} {reason}", id="no-parent")
        result.warnings.append(without)
        return result
    parent = open_model(parent).victim
    judge = victim.replace(source=parent, scale=parent.scale)
    by_parent = [AttackSpec(name, f"{name} on the parent", note=BY_PARENT) for name in ON_PARENT]
    result = evaluate(judge, images, attacks=[*by_parent, *attacks], checks=checks, options=options, **threat)
    if options.shard is not None:  # the merge of all shards compares with the parent
        return result
    on_parent = [*ON_PARENT, *attacks]
    quiet = EvaluationOptions(progress=options.progress)
    of_parent = evaluate(parent, images, attacks=on_parent, checks=False, options=quiet, **threat)
    outputs = [_logits(one, images[0], batch_size) for one in (victim, parent)]
    result.conversion = {  # type: ignore[assignment]
        "parent": parent.name,
        "clean_accuracy": of_parent.clean_accuracy,
        "worst_case_accuracy": of_parent.worst_case_accuracy,
        "attacks": on_parent,
        **_differences(*outputs),
    }
    result.warnings += _masking(result.worst_case_accuracy, of_parent.worst_case_accuracy)
    return result


def _with_twin(victim: Victim, images, result: Result, batch_size: int) -> Result:
    """A result of a file whose gradient source is its twin; says so, and how far the two are from each
    other.
    """
    name, outputs = "its Keras twin", [_logits(one, images[0], batch_size) for one in (victim, victim.source)]
    result.judge = {"name": victim.name, "kind": "the file itself"}
    result.gradient_source = {"name": victim.source.name, "kind": name}
    result.conversion = {"parent": name, **_differences(*outputs)}  # type: ignore[assignment]
    return result


def _logits(victim: Victim, images: np.ndarray, batch_size: int) -> np.ndarray:
    return np.concatenate([np.asarray(part) for _, part in clean_logits(victim, images, batch_size)])


def _differences(logits: np.ndarray, of_parent: np.ndarray) -> dict[str, float]:
    """How far the file is from its parent on clean images."""
    moved = np.abs(logits - of_parent)
    return {
        "same_predictions": float(np.mean(logits.argmax(axis=1) == of_parent.argmax(axis=1))),
        "mean_difference": float(moved.mean()),
        "largest_difference": float(moved.max()),
    }


def _masking(accuracy: float | None, of_parent: float | None) -> list[str]:
    """A warning if the file seems more robust than the model that it was made of."""
    if accuracy is None or of_parent is None or accuracy <= of_parent:
        return []
    text = (
        f"The file seems more robust than its parent ({accuracy:.1%} against {of_parent:.1%}). This may be "
        "gradient masking: rounding hides gradients, and attacks without them are weaker. Quote the parent's "
        "number."
    )
    return [Notice(text, id="masked-gradients")]
