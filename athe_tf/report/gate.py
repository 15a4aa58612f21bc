"""Requirements on an evaluation, such as `worst_case>=0.45`, and whether they are met."""

import dataclasses
import re
from typing import Literal, get_args

from athe_tf.report.comparison import Row, common_attacks, comparability, difference
from athe_tf.report.format import interval_text, percent
from athe_tf.report.reading import SavedEvaluation, read_evaluation
from athe_tf.results.file_format import Requirement
from athe_tf.results.intervals import wilson_interval
from athe_tf.results.result import CLOSE, Result
from athe_tf.utils.errors import InputError, check
from athe_tf.utils.number_format import parse_number
from athe_tf.utils.options import check_options, option
from athe_tf.utils.registry import did_you_mean

#: What a requirement can be about, and `class:N`.
MEASURES = ("worst_case", "clean", "corruptions")
CLASS, CHECKS = "class:", "checks"
_EXAMPLE = "Expected worst_case>=0.45, clean>=0.8, class:3>=0.2, corruptions>=0.6 or checks."
_EXPRESSION = re.compile(r"\s*(?P<measure>[^<>=]+?)\s*>=\s*(?P<least>[^<>=]+?)\s*")
End = Literal["interval", "value"]


@dataclasses.dataclass(frozen=True)
class GateOptions:
    """Requirements that an evaluation must meet: `bin/evaluate` and `bin/report` end with code 3 otherwise.

    Example:

    >>> options = GateOptions(require=("worst_case>=0.45", "checks"))
    >>> [one["met"] for one in judge(athe_tf.report.read_evaluation("runs/demo"), options)]
    """

    require: tuple[str, ...] = option(
        (),
        "Exit with code 3 unless this holds: worst_case>=0.45, clean>=0.8, class:3>=0.2, corruptions>=0.6 or "
        "checks (none failed). May be given several times.",
        repeated=True,
    )
    require_on: str = option(
        "interval",
        "What must meet a requirement: the lower end of the 95% interval, or the value itself.",
        choices=get_args(End),
    )
    baseline: str | None = option(
        None, "Evaluation of the model shipped so far, on the same images: the report compares with it."
    )
    max_drop: float | None = option(
        None,
        "Exit with code 3 if the worst case is lower than the baseline's by more than this, such as 0.02.",
        ge=0,
        lt=1,
    )

    def __post_init__(self):
        self.check_gate()

    def check_gate(self) -> None:
        """Raises `InputError` for a requirement that no evaluation can have."""
        check_options(self, lambda name: f"--{name}", table=GateOptions)
        for text in self.require:
            parsed(text)
        check(
            self.max_drop is None or self.baseline is not None,
            f"--max_drop compares with another evaluation. Received: --max_drop={self.max_drop} without "
            "--baseline. Name the evaluation of the shipped model: --baseline=OLD/evaluation.json.",
        )


def parsed(text: str) -> tuple[str, float | None]:
    """The measure and the bound of a requirement; `None` for `checks`, which has no bound.

    Example:

    >>> parsed("worst_case >= 0.45"), parsed("checks")
    (('worst_case', 0.45), ('checks', None))
    """
    if text.strip() == CHECKS:
        return CHECKS, None
    found = _EXPRESSION.fullmatch(text)
    check(found is not None, f"A requirement has the form MEASURE>=NUMBER. Received: '{text}'. {_EXAMPLE}")
    assert found is not None
    measure, least = found["measure"], parse_number(found["least"])
    check(
        measure in MEASURES or (measure.startswith(CLASS) and measure != CLASS),
        f"Unknown measure in the requirement '{text}'.{did_you_mean(measure, MEASURES)} {_EXAMPLE}",
    )
    check(
        0 <= least <= 1,
        f"The number of a requirement is a share from 0 to 1. Received: '{text}'. Write 0.45 for 45%.",
    )
    return measure, least


def judge(
    evaluation: SavedEvaluation, options: GateOptions, baseline: SavedEvaluation | None = None
) -> list[Requirement]:
    """Whether an evaluation meets each requirement.

    Args:
        evaluation: The evaluation.
        options: The requirements.
        baseline: The evaluation of the shipped model, if it was read before.
    """
    found = [_outcome(evaluation.result, text, options.require_on) for text in options.require]
    if options.max_drop is not None:
        baseline = baseline or read_evaluation(options.baseline)
        found.append(_drop(evaluation, baseline, options.max_drop, options.require_on))
    return found


def is_met(requirements: list[Requirement]) -> bool:
    """Whether all requirements are met."""
    return all(one["met"] for one in requirements)


def _outcome(result: Result, text: str, end: str) -> Requirement:
    measure, least = parsed(text)
    if least is None:
        failed = [check["name"] for check in result.checks if check["status"] == "failed"]
        detail = f"failed: {'; '.join(failed)}" if failed else f"{len(result.checks)} checks, none failed"
        detail = detail if result.checks else "no check was run"
        return {"requirement": text, "met": bool(result.checks) and not failed, "detail": detail}
    share, interval = _measured(result, measure)
    if share is None:
        return {"requirement": text, "measured": None, "met": False, "detail": "it was not measured"}
    judged = share if interval is None or end == "value" else interval[0]
    detail = (
        percent(share) if interval is None else f"{percent(share)}, 95% interval {interval_text(interval)}"
    )
    return {"requirement": text, "measured": judged, "met": judged >= least - CLOSE, "detail": detail}


def _measured(result: Result, measure: str) -> tuple[float | None, tuple[float, float] | None]:
    """The value and the interval of a measure; `None` if the evaluation does not have it."""
    if measure == "corruptions":  # a mean over corruptions of the same images, which has no interval
        return None if result.corruptions is None else result.corruptions.get("mca"), None
    if measure in MEASURES:
        interval = getattr(result, f"{measure}_interval")
        return getattr(result, f"{measure}_accuracy"), interval and tuple(interval)
    number, classes = class_number(result, measure.removeprefix(CLASS)), result.per_class
    assert classes is not None
    share, count = classes["worst_case"][number], classes["count"][number]
    check(share is not None, f"There are no images of class {number} to judge '{measure}' by.")
    assert share is not None
    return (share, wilson_interval(round(share * count), count)) if result.counted else (None, None)


def class_number(result: Result, name: str) -> int:
    """The number of a class, given by its number or its name."""
    classes = 0 if result.per_class is None else len(result.per_class["count"])
    if name in (result.class_names or ()):
        return result.class_names.index(name)  # type: ignore[union-attr]
    check(
        name.isdecimal() and int(name) < classes,
        f"There is no class '{name}' in this evaluation. Expected a number from 0 to {classes - 1}"
        f"{'' if result.class_names is None else ', or a name such as ' + result.class_names[0]}.",
    )
    return int(name)


def _drop(evaluation: SavedEvaluation, baseline: SavedEvaluation, most: float, end: str) -> Requirement:
    before, after = against(evaluation, baseline)
    found = difference(before, after)
    check(
        end == "value" or found.interval is not None,
        f"The baseline '{baseline.folder}' has no flags per image, which an interval needs. Evaluate it "
        "again, or use --require_on=value.",
    )
    drop = -found.value if end == "value" or found.interval is None else -found.interval[0]
    return {
        "requirement": f"drop<={most:g}", "measured": min(1.0, max(0.0, drop)), "met": drop <= most + CLOSE,
        "detail": f"{found.text} to the baseline; {found.changed}",
    }  # fmt: skip


def against(evaluation: SavedEvaluation, baseline: SavedEvaluation) -> tuple[Row, Row]:
    """The baseline and the evaluation, to be compared over the attacks that both have.

    Raises `InputError` if they were not measured in the same way.
    """
    both = [("the baseline", baseline.result), ("this model", evaluation.result)]
    common, left_out = common_attacks([result for _, result in both])
    problems = comparability(both, common, left_out)
    if not problems and None in (one.worst_case_accuracy for _, one in both):
        problems = ["no attack was run within the threat model."]
    if problems:
        raise InputError(
            f"This evaluation cannot be compared with the baseline '{baseline.folder}': {problems[0]} "
            "Evaluate both on the same images, with the same attacks."
        )
    rows = [Row(label, (one,), common) for (label, _), one in zip(both, (baseline, evaluation), strict=True)]
    return rows[0], rows[1]
