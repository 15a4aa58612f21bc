"""The format of `evaluation.json`: the types of its parts, its JSON Schema, and what else must hold.

The types are the only home of the format: `evaluation_schema` makes the schema of them. After a change,

    python -m athe_tf.results.file_format > athe_tf/report/schemas/evaluation.schema.json
"""
# ruff: noqa: UP013

import dataclasses
import functools
import inspect
import json
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from athe_tf.results.json_files import check_schema, check_version
from athe_tf.results.notices import UNNAMED
from athe_tf.utils.choices import GRADIENTS
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.options import json_schema, option

#: The version of `evaluation.json` that is written.
FORMAT = 3
AGAIN = "Run the evaluation again."
#: Packages that can repeat our attacks with independent code.
PEERS = ("art", "cleverhans", "foolbox")


@dataclasses.dataclass(frozen=True)
class LessCommonOptions:
    """What `EvaluationOptions` and `bin/evaluate` have in common; recorded in the result if chosen.

    An option that is added here is an argument of the one, a flag of the other, an entry of `settings` in
    `evaluation.json` if it was chosen, and a property in its schema.
    """

    epsilons: Sequence[float] = option((), "Further radii for every attack, for a curve.", after="epsilon")
    norms: Sequence[str] = option(
        (),
        "Several threat models at once, such as linf:8/255,l2:0.5,l1:12; the first is the headline.",
        after="epsilon",
    )
    verify_with: Sequence[str] = option((), f"Repeat FGSM and PGD-20 with: {', '.join(PEERS)}.")
    corruptions: str | None = option(
        None,
        "Also measure common corruptions: generated, folder:PATH with the genuine .npy or JPEG files, or a "
        "TensorFlow Datasets name. [generated with --protocol=corruptions, else none]",
    )
    corruption_resize: int | None = option(
        None, "Resize JPEG files of ImageNet-C to this before the crop; 256 in the HE paper's code.", gt=0
    )
    margin: float | None = option(None, "Margin of training, for adaptive attacks. [the run's own]", ge=0)
    logit_scale: str | float = option(
        "model", "Scale of hypersphere logits for attacks that depend on it: model, or a number."
    )
    straight_through: Sequence[str] = option(
        (), "Layers without a gradient that attacks pass backward through: names, or name=module:function."
    )
    gradients: str = option(
        "model",
        "Where attacks take gradients from: the model, its folded weights, or these in bfloat16, which may "
        "be faster; the model decides.",
        choices=GRADIENTS,
    )
    random_passes: int = option(
        16, "Randomized models: most of so many fresh passes decide about an image. 1: a single pass.", gt=0
    )
    gradient_passes: int = option(
        1, "Randomized models: average the gradients of every attack over so many passes.", gt=0
    )
    probabilities: bool = option(False, "Attack the logarithms of a softmax that cannot be removed.")
    max_passes: int | None = option(
        None,
        "Stop each attack on an image after this many forward and backward passes.",
        gt=0,
        after="max_examples",
    )
    jit_compile: bool = option(
        False, "Compile attacks with XLA, for batches of one size; for accelerators, slow on CPUs."
    )


# A type, what else must hold, and how messages call it: "expected ..., received ...".
_COUNT, _LENGTH, _SHARE = ({"minimum": 0, "maximum": most} for most in (1e15, 1e6, 1))
_NUMBER = r"^([0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?|[0-9]+/[1-9][0-9]*)$"
Text = Annotated[str, "a text"]
Texts = Annotated[list[Text], "a list of texts"]
Number = Annotated[str, {"pattern": _NUMBER, "maxLength": 30}, "a text such as '0.031' or '8/255'"]
Seed = Annotated[int, {"minimum": -1e19, "maximum": 1e19}, "a whole number"]
Count = Annotated[int, _COUNT, "a whole number of at least 0"]
Positive = Annotated[int, _COUNT, {"minimum": 1}, "a whole number of at least 1"]
Counts = Annotated[list[Count], "a list of whole numbers"]
Share = Annotated[float, _SHARE, "a number from 0 to 1"]
OptionalShare = Annotated[float | None, _SHARE, "a number from 0 to 1, or null"]
Shares = Annotated[list[OptionalShare], "a list of numbers from 0 to 1"]
Interval = Annotated[list[Share], {"minItems": 2, "maxItems": 2}, "two numbers from 0 to 1"]
Length = Annotated[float, _LENGTH, "a number of at least 0"]
OptionalLength = Annotated[float | None, _LENGTH, "a number of at least 0, or null"]
Seconds = Annotated[float, {"minimum": 0, "maximum": 1e12}, "a number of at least 0"]
Difference = Annotated[float, {"minimum": -1, "maximum": 1}, "a number from -1 to 1"]
Edge = Annotated[float, {"minimum": -1e6, "maximum": 1e6}, "a number"]
Truth = Annotated[bool, "true or false"]
Free = Annotated[dict[str, Any], "an object"]
_RECORDED = {
    one.name: json_schema(LessCommonOptions, one.name) for one in dataclasses.fields(LessCommonOptions)
}
Settings = Annotated[dict[str, Any], {"properties": _RECORDED}, "an object"]
Digest = Annotated[
    str,
    {"pattern": "^[0-9a-f]{64}$"},
    "the SHA-256 digest of the run's config.json, 64 letters from 0-9 and a-f",
]
Bits = Annotated[str, {"pattern": "^[01]*$"}, "one 0 or 1 per image"]
Flags = Annotated[dict[str, Bits], "one text per attack"]
Status = Annotated[Literal["passed", "failed", "not run"], "'passed', 'failed' or 'not run'"]


# Objects in the functional form, which is short: a name, its keys, and the description in the schema.
Warned = TypedDict("Warned", {"id": Text, "text": Text})
Warned.__doc__ = "A warning, with an 'id' that stays the same when its 'text' changes."

ThreatModel = TypedDict("ThreatModel", {
    "norm": Text, "epsilon": Number,
    "worst_case_accuracy": NotRequired[Share], "worst_case_interval": NotRequired[Interval],
})  # fmt: skip
ThreatModel.__doc__ = "A threat model, with 'norm' and 'epsilon'; its worst case if there are several."

Union = TypedDict("Union", {"accuracy": Share, "interval": Interval, "mean": Share})
Union.__doc__ = "The share of images that withstand every attack in all norms, and the mean over norms."

ModelRole = TypedDict("ModelRole", {"name": Text, "kind": NotRequired[Text], "digest": NotRequired[Text]})
ModelRole.__doc__ = "The model that judges images, or the one that attacks take gradients from."

Randomized = TypedDict("Randomized", {
    "passes": Positive, "needed": Positive, "mean_accuracy": NotRequired[Share],
    "majority_accuracy": NotRequired[Share], "lower_bound": NotRequired[Share],
})  # fmt: skip
Randomized.__doc__ = (
    "How a randomized model was judged: an image is broken if 'needed' of 'passes' passes are wrong."
)

Requirement = TypedDict("Requirement", {
    "requirement": Text, "measured": NotRequired[OptionalShare], "met": Truth, "detail": NotRequired[Text],
})  # fmt: skip
Requirement.__doc__ = "A requirement that was declared before the evaluation, and its outcome."

ProvedBits = Annotated[str, {"pattern": "^[01?]*$"}, "one 0, 1 or ? per image"]
Verified = TypedDict("Verified", {"tool": Text, "norm": Text, "epsilon": Number, "flags": ProvedBits})
Verified.__doc__ = "What a verifier proved: per image 1 (robust), 0 (not robust) or ? (unknown)."

PassesPerImage = TypedDict("PassesPerImage", {"forward": Seconds, "backward": Seconds})
PassesPerImage.__doc__ = "Forward and backward passes, averaged over the images."

EightBitCounts = TypedDict("EightBitCounts", {"tested": Count, "still_adversarial": Count})
EightBitCounts.__doc__ = "How many adversarial examples were rounded to 8 bits, and are still adversarial."

EightBit = TypedDict("EightBit", {
    "tested": Positive, "still_adversarial": Count, "accuracy": Share, "interval": Interval,
    "flags": NotRequired[Flags], "upper_bound": NotRequired[Truth],
})  # fmt: skip
EightBit.__doc__ = (
    "The worst case of 8-bit images: of rounded adversarial examples and, unless it is an 'upper_bound', of "
    "an attack on 8-bit images where rounding lost them."
)

Stage = TypedDict("Stage", {"name": Text, "accuracy": Share, "seconds": Seconds})
Stage.__doc__ = "A stage of a cascade."

GradientFaults = TypedDict("GradientFaults", {"attacked": Count, "zero": Count, "nonfinite": Count})
GradientFaults.__doc__ = "How many images were attacked, and had a gradient that was zero, or not finite."

AttackEntry = TypedDict("AttackEntry", {
    "name": Text, "not_run": NotRequired[Text], "accuracy": NotRequired[Share],
    "interval": NotRequired[Interval], "examples": NotRequired[Positive], "seconds": NotRequired[Seconds],
    "queries": NotRequired[Count], "gradients": NotRequired[Count],
    "passes_per_image": NotRequired[PassesPerImage], "source_queries": NotRequired[Count],
    "source_gradients": NotRequired[Count], "nonfinite_gradients": NotRequired[Count],
    "median_norm": NotRequired[OptionalLength], "eight_bit": NotRequired[EightBitCounts],
    "epsilon": NotRequired[Length], "norm": NotRequired[Text], "settings": NotRequired[Free],
    "in_worst_case": NotRequired[Truth], "remarks": NotRequired[Texts],
    "stages": NotRequired[Annotated[list[Stage], "a list of stages"]],
    "norms": NotRequired[Annotated[list[OptionalLength], "a list of numbers"]],
    "broken_passes": NotRequired[Counts], "nan_logits": NotRequired[Count],
    "gradient_faults": NotRequired[GradientFaults],
})  # fmt: skip
AttackEntry.__doc__ = "An object that describes an attack."

#: An attack that was run has numbers, any other has a reason.
Attack = Annotated[AttackEntry, {
    "if": {"required": ["not_run"]}, "then": {"properties": {"accuracy": False}},
    "else": {"required": [
        "accuracy", "interval", "examples", "seconds", "queries", "gradients", "nonfinite_gradients",
        "median_norm", "settings", "in_worst_case",
    ]},
}]  # fmt: skip

PerClass = TypedDict("PerClass", {"clean": Shares, "worst_case": Shares, "count": Counts})
PerClass.__doc__ = "An object with one value per class."

CurvePoint = TypedDict("CurvePoint", {"epsilon": Length, "accuracy": Share, "interval": Interval})
CurvePoint.__doc__ = "A point of the curve."

Distances = TypedDict("Distances", {
    "attacks": Texts, "radius": Length, "expected_robustness": Length, "area": Share,
    "median": OptionalLength, "points": Annotated[list[CurvePoint], "a list of points"],
})  # fmt: skip
Distances.__doc__ = (
    "The smallest perturbation of each image by minimum-norm attacks: its mean, cut at 'radius', in pixels "
    "and as a share of 'radius' ('area', below the curve of 'points'), and its median."
)

Check = TypedDict("Check", {"name": Text, "status": Status, "detail": Text, "numbers": NotRequired[Free]})
Check.__doc__ = "A sanity check."

Bin = TypedDict("Bin", {"confidence": OptionalShare, "accuracy": OptionalShare, "count": Count})
Bin.__doc__ = "A bin of a reliability diagram."

Reliability = TypedDict("Reliability", {
    "ece": OptionalShare, "bins": Annotated[list[Bin], "a list of bins"], "attack": NotRequired[Text],
    "examples": NotRequired[Count],
})  # fmt: skip
Reliability.__doc__ = "An object with 'ece' and 'bins'."

Calibration = TypedDict(
    "Calibration", {"clean": NotRequired[Reliability], "adversarial": NotRequired[Reliability]}
)
Calibration.__doc__ = "An object with 'clean' and 'adversarial'."

AngleCounts = TypedDict("AngleCounts", {"true": Counts, "nearest_wrong": Counts, "attack": NotRequired[Text]})
AngleCounts.__doc__ = "An object with two histograms."


class Angles(AngleCounts):
    """An object with two histograms and their 'edges'."""

    edges: Annotated[list[Edge], {"minItems": 2}, "a list of at least two numbers"]
    adversarial: NotRequired[AngleCounts]


Corruptions = TypedDict("Corruptions", {
    "generated": NotRequired[Truth], "source": NotRequired[Text], "protocol": NotRequired[Text],
    "examples": NotRequired[Count], "severities": Counts,
    "accuracy": Annotated[dict[str, Shares], "an object with one list per corruption"],
    "groups": NotRequired[Annotated[dict[str, OptionalShare], "an object with one number per group"]],
    "mca": NotRequired[Share], "mean_error": NotRequired[Share], "mce": NotRequired[Length],
    "remarks": NotRequired[Texts],
})  # fmt: skip
Corruptions.__doc__ = "An object with accuracies under corruptions."

_CrossCheck = TypedDict("_CrossCheck", {
    "tool": Text, "attack": Text, "ours": NotRequired[Share], "theirs": NotRequired[Share],
    "difference": NotRequired[Difference], "not_run": NotRequired[Text],
})  # fmt: skip
_CrossCheck.__doc__ = "A comparison with another package."
_UNLESS_NOT_RUN = {"if": {"required": ["not_run"]}, "else": {"required": ["ours", "theirs", "difference"]}}
CrossCheck = Annotated[_CrossCheck, _UNLESS_NOT_RUN]

Conversion = TypedDict("Conversion", {
    "parent": Text, "clean_accuracy": NotRequired[Share], "worst_case_accuracy": NotRequired[Share],
    "attacks": NotRequired[Texts],
    "same_predictions": Share, "mean_difference": Length, "largest_difference": Length,
})  # fmt: skip
Conversion.__doc__ = "An object that compares a file with the model that it was made of."

Transfer = TypedDict("Transfer", {
    "sources": Texts, "targets": Texts, "attack": NotRequired[Text], "clean": NotRequired[Shares],
    "accuracy": Annotated[list[Shares], "a list of rows"],
})  # fmt: skip
Transfer.__doc__ = "An object with a transfer matrix."


_RUN = "the folder of the training run, relative to the folder of this file"
EvaluationFile = TypedDict("EvaluationFile", {
    "format": Annotated[Literal[3], "the version of this format"],
    "model": Text, "dataset": Text, "examples": Positive, "epsilon": Number, "norm": Text, "seed": Seed,
    "verdict": Text, "clean_accuracy": Share, "clean_interval": Interval,
    "worst_case_accuracy": Share, "worst_case_interval": Interval,
    "attacks": Annotated[list[Attack], "a list of attacks"],
    "warnings": Annotated[list[Warned], "a list of warnings"],
    "versions": Free,
    "threat_models": Annotated[list[ThreatModel], {"minItems": 1}, "a list of threat models"],
    "protocol": NotRequired[Text], "command": NotRequired[Text], "settings": NotRequired[Settings],
    "run": NotRequired[Annotated[str, _RUN]], "run_digest": NotRequired[Digest],
    "images_fingerprint": NotRequired[Text], "classes": NotRequired[Count],
    "class_names": NotRequired[Texts], "labels": NotRequired[Counts], "flags": NotRequired[Flags],
    "per_class": NotRequired[PerClass], "eight_bit": NotRequired[EightBit],
    "judge": NotRequired[ModelRole], "gradient_source": NotRequired[ModelRole],
    "randomized": NotRequired[Randomized],
    "requirements": NotRequired[Annotated[list[Requirement], "a list of requirements"]],
    "verified": NotRequired[Annotated[list[Verified], "a list of verified verdicts"]],
    "conversion": NotRequired[Conversion],
    "curve": NotRequired[Annotated[list[CurvePoint], "a list of points"]],
    "distances": NotRequired[Distances], "union": NotRequired[Union],
    "checks": NotRequired[Annotated[list[Check], "a list of sanity checks"]],
    "calibration": NotRequired[Calibration], "angles": NotRequired[Angles],
    "corruptions": NotRequired[Corruptions],
    "verify": NotRequired[Annotated[list[CrossCheck], "a list of comparisons"]],
    "transfer": NotRequired[Transfer],
})  # fmt: skip
EvaluationFile.__doc__ = "An object that says what an evaluation found; keys that do not apply are absent."


@functools.cache
def evaluation_schema() -> dict:
    """The JSON Schema (draft 2020-12) of `evaluation.json`.

    Example:

    >>> evaluation_schema()["properties"]["format"]["const"]
    3
    """
    parts: dict[str, dict] = {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:athe_tf:evaluation:{FORMAT}",
        "title": "evaluation.json of athe_tf",
        **_object(EvaluationFile, parts),
        "$defs": parts,
    }


_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def _schema(hint: Any, parts: dict[str, dict]) -> dict:
    """The schema of a type; schemas of objects are added to `parts`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is NotRequired:
        return _schema(arguments[0], parts)
    if origin is Annotated:
        found = _schema(arguments[0], parts)
        for one in hint.__metadata__:
            found |= {"description": one} if isinstance(one, str) else one
        return found
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], parts)}
    if origin is dict:
        values = {} if arguments[1] is Any else {"additionalProperties": _schema(arguments[1], parts)}
        return {"type": "object", **values}
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin is types.UnionType:
        return {"type": [_KINDS[kind] for kind in arguments]}
    if typing.is_typeddict(hint):
        name = hint.__name__.strip("_")
        parts[name] = _object(hint, parts)
        return {"$ref": f"#/$defs/{name}"}
    return {"type": _KINDS[hint]}


def _object(hint: Any, parts: dict[str, dict]) -> dict:
    hints = typing.get_type_hints(hint, include_extras=True)
    meaning = inspect.getdoc(hint).removesuffix(".")  # type: ignore[union-attr]
    return {
        "description": meaning[0].lower() + meaning[1:],
        "type": "object",
        "required": [key for key in hints if key in hint.__required_keys__],
        "properties": {key: _schema(value, parts) for key, value in hints.items()},
    }


def checked(data: Any, place: str) -> tuple[EvaluationFile, int]:
    """The content of a file of any format in the latest one, and the format that it had.

    Raises `InputError`, which names the `place`, unless it is an evaluation.
    """
    version = check_version(data, place, FORMAT, f"Or else: {AGAIN}")
    latest = upgraded(data)
    try:
        check_schema(latest, evaluation_schema())
        _check_lengths(latest)
    except InputError as error:
        older = f" It has format {version}." if isinstance(data, dict) and version < FORMAT - 1 else ""
        raise InputError(f"{place} is not a valid evaluation: {error}.{older} {AGAIN}") from None
    return latest, version


def upgraded(data: Any) -> Any:
    """The same in the latest format. Before format 3, warnings had no ids, and there was one threat model."""
    if not isinstance(data, dict) or data.get("format") == FORMAT:
        return data
    found = {**data, "format": FORMAT}
    if isinstance(data.get("warnings"), list):
        found["warnings"] = [
            {"id": UNNAMED, "text": text} if isinstance(text, str) else text for text in data["warnings"]
        ]
    if "norm" in data and "epsilon" in data:
        found.setdefault("threat_models", [{"norm": data["norm"], "epsilon": data["epsilon"]}])
    return found


def _check_lengths(data: EvaluationFile) -> None:
    """Raises `InputError` unless lists that belong together have one length; JSON Schema cannot say it."""
    for place, lengths in _parallel(data):
        message = f"at '{place}': expected lists of one length, received lists of {lengths} items"
        check(len(set(lengths)) == 1, message)


def _parallel(data: EvaluationFile):
    """`(place, lengths)` of all lists that are read side by side."""
    if "per_class" in data:
        yield "per_class", [len(data["per_class"][key]) for key in ("clean", "worst_case", "count")]
    if "angles" in data:
        angles, edges = data["angles"], len(data["angles"]["edges"])
        yield "angles", [edges - 1, len(angles["true"]), len(angles["nearest_wrong"])]
        if "adversarial" in angles:
            part = angles["adversarial"]
            yield "angles.adversarial", [edges - 1, len(part["true"]), len(part["nearest_wrong"])]
    if "corruptions" in data:
        severities = len(data["corruptions"]["severities"])
        yield "corruptions", [severities, *map(len, data["corruptions"]["accuracy"].values())]
    if "transfer" in data:
        rows = data["transfer"]["accuracy"]
        yield "transfer.accuracy", [len(data["transfer"]["sources"]), len(rows)]
        yield "transfer.accuracy", [len(data["transfer"]["targets"]), *map(len, rows)]


if __name__ == "__main__":
    print(json.dumps(evaluation_schema(), indent=2))
