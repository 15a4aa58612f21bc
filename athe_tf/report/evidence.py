"""One page of evidence for those who were not there: auditors, customers, the next owner of the model.

The page and `robustness_evidence.json` have the same thirteen points. Nothing in them is a judgment of ours:
whether the numbers are enough is decided by whoever declared the requirements.
"""

import datetime
import json
from typing import Any

from athe_tf.drawing import markup
from athe_tf.drawing.markup import Markup, table, tag
from athe_tf.report.comparison import WORST, difference, shortened
from athe_tf.report.format import NOTHING, interval_text, percent, sentence
from athe_tf.report.gate import against
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.intervals import wilson_interval
from athe_tf.results.result import Result
from athe_tf.results.text_table import conversion_sentence, eight_bit_sentence, tally
from athe_tf.utils.errors import InputError
from athe_tf.utils.number_format import format_number
from athe_tf.version import __version__

UNKNOWN, MISSING = "not recorded", "not measured"
#: Where others ask for the same, by the clauses of their documents.
CROSSWALK = {
    "what this is": "Measurements that map to these clauses; no assessment by their authors.",
    "OWASP AISVS 1.0": "11.1.2, 11.1.3; 3.2.2 if a converted file was attacked",
    "EU AI Act": "Article 15(4) and 15(5); Annex IV, 2(g)",
    "NIST AI RMF": "MEASURE 2.6, MEASURE 2.7",
    "ISO/IEC": "TR 24029-1; DIS 24029-3, measuring adversarial robustness",
}
LIMITS = (
    "Robustness here is an upper bound: a stronger attack may find more adversarial examples.",
    "It holds for images like these; other data, sensors and preprocessing need an evaluation of their own.",
    "Not covered: perturbations outside the threat model, poisoned training data, theft of the model.",
)
# Characters of a text on the page; the whole is in the JSON file.
LONGEST = 900


def evidence(evaluation: SavedEvaluation) -> dict[str, Any]:
    """The thirteen points, ready for JSON: texts and, under `table`, rows with their head."""
    result = evaluation.result
    models = [f"{one['norm']} {one['epsilon']}" for one in result.threat_models]
    digest = UNKNOWN if result.judge is None else result.judge.get("digest", UNKNOWN)
    strongest = min(result.counted, key=lambda one: one.accuracy, default=None)
    classes = None if result.per_class is None else result.per_class["count"]
    verified = [f"{one['tool']} {one['attack']}: {percent(one['theirs'])} there, {percent(one['ours'])} here"
                for one in result.verify if "theirs" in one]  # fmt: skip
    failed = [f"{one['name']}: {one['detail']}" for one in result.checks if one["status"] == "failed"]
    outcome = [[one["requirement"], "met" if one["met"] else "not met", one.get("detail", "")]
               for one in result.requirements]  # fmt: skip
    white_box = any(one.gradients for one in result.counted)
    points: dict[str, dict[str, Any]] = {
        "claim": {"claim": claim(result), "verdict": result.verdict},
        "threat model": {
            "perturbation": f"at most {' or '.join(models)} for pixels in [0, 1]",
            "knowledge": "weights and gradients (white box)" if white_box else "outputs only",
            "goal": "any wrong class, at the time of inference",
        },
        "identity": {
            "model": f"{result.model}, digest {digest}",
            "architecture": (evaluation.config or {}).get("model", UNKNOWN),
            "training run": f"digest {result.run_digest or UNKNOWN}",
            "images": result.images_fingerprint or UNKNOWN,
            "code": ", ".join(f"{name} {version}" for name, version in result.versions.items()),
            "seed": result.seed, "command": result.command or UNKNOWN,
        },
        "artifact": {
            "attacked": result.model if result.judge is None else result.judge["name"],
            "gradients": "of the same model" if result.gradient_source is None
            else f"of {result.gradient_source['name']}",
            "parent": conversion_sentence(result.conversion) or "none",
        },
        "data": {
            "images": f"{result.examples:,} of {result.dataset}, the first ones of the split",
            "images per class": UNKNOWN if classes is None
            else ", ".join(f"{result.class_name(number)} {images}" for number, images in enumerate(classes)),
            "overlap with training images": "not checked",
        },
        "attacks": {
            "table": attack_rows(result),
            "strongest single attack": NOTHING if strongest is None else result.label(strongest),
            "independent packages": "; ".join(verified) or "not compared",
        },
        "accuracies": accuracies(result),
        "strength of the evaluation": {
            "sanity checks": tally(result.checks) if result.checks else "not run", "failed": failed or "none",
            "8-bit images": eight_bit_sentence(result.eight_bit) or MISSING,
        },
        "previous version": previous(evaluation),
        "requirements": {"table": [["requirement", "outcome", "measured"], *outcome]} if outcome
        else {"requirements": "none were declared before the run"},
        "common corruptions": {"mean accuracy": percent(result.corruptions.get("mca")) if result.corruptions
                               else MISSING},
        "limits": {"limits": [*LIMITS, *evaluation.notes, *result.warnings]},
        "crosswalk": CROSSWALK,
    }  # fmt: skip
    return {"athe_tf": __version__, "written": datetime.date.today().isoformat(), "points": points}


def evidence_json(evaluation: SavedEvaluation) -> str:
    """The text of `robustness_evidence.json`."""
    return json.dumps(evidence(evaluation), indent=2, default=str) + "\n"


def evidence_page(evaluation: SavedEvaluation) -> str:
    """A page that prints on one or two sheets of A4."""
    found = evidence(evaluation)
    sections: dict[str, Any] = {
        f"point{number}": (f"{number} {sentence(name)}", lambda _, point=point: _content(point))
        for number, (name, point) in enumerate(found["points"].items(), start=1)
    }
    opening = [tag("p", f"Written on {found['written']}", class_="threat")]
    title = f"Robustness evidence: {evaluation.result.model}"
    return markup.page(title, opening, sections, found, kind="page evidence")


def _content(point: dict[str, Any]) -> list[Markup]:
    tables, facts = [], []
    for name, value in point.items():
        if name == "table":
            head, *rows = value
            tables.append(table(head, rows, caption=sentence(head[0]), numeric_from=len(head)))
        else:
            several = map(str, value if isinstance(value, list) else [value])
            facts += [tag("dt", sentence(name)), *(tag("dd", shortened(each, LONGEST)) for each in several)]
    return [*([tag("dl", *facts)] if facts else []), *tables]


def _with_interval(share: float | None, interval, images: int) -> str:
    if share is None or interval is None:
        return NOTHING
    return f"{percent(share)}, 95% Wilson interval {interval_text(interval)}%, n = {images:,}"


def claim(result: Result) -> str:
    """One sentence with its lower bound."""
    share, interval = result.worst_case_accuracy, result.worst_case_interval
    if share is None or interval is None:
        return f"No attack was run within the threat model: nothing is claimed about {result.model}."
    names = ", ".join(result.label(one) for one in result.counted)
    return (
        f"At least {percent(interval[0], 1)} of images of {result.dataset} are classified correctly by "
        f"{result.model}, clean and under every perturbation that {names} found within {result.norm} "
        f"{result.covered_radius} ({_with_interval(share, interval, result.examples)})."
    )


def attack_rows(result: Result) -> list[list[str]]:
    """One row per attack: its strength, and what it found."""
    rows = [["attack", "steps, restarts", "epsilon", "passes per image", "accuracy", "95% interval"]]
    for one in result.attacks:
        effort = f"{one.settings.get('steps', NOTHING)}, {one.settings.get('restarts', 1)}"
        found = ["not run", str(one.not_run)]
        if one.was_run:
            found = [percent(one.accuracy), interval_text(one.interval)]
        name = one.name if one.in_worst_case else f"{one.name} (not in the worst case)"
        epsilon = format_number(result.epsilon_of(one))
        rows.append([name, effort, epsilon, f"{sum(one.mean_passes):,.0f}", *found])
    return rows


def accuracies(result: Result) -> dict[str, str]:
    """Clean, worst case and worst class."""
    found = {
        "clean": _with_interval(result.clean_accuracy, result.clean_interval, result.examples),
        WORST: _with_interval(result.worst_case_accuracy, result.worst_case_interval, result.examples),
    }
    classes = result.per_class
    if classes is not None and result.counted:
        known = zip(classes["worst_case"], classes["count"], range(len(classes["count"])), strict=True)
        share, images, number = min((s, n, number) for s, n, number in known if s is not None)
        interval = wilson_interval(round(share * images), images)
        found["worst class"] = f"{result.class_name(number)}: {_with_interval(share, interval, images)}"
    points = [f"{percent(p['accuracy'], 1)} at {format_number(p['epsilon'])}" for p in result.curve]
    return found | ({"by epsilon": ", ".join(points)} if points else {})


def previous(evaluation: SavedEvaluation) -> dict[str, str]:
    """The difference to the baseline, on the same images."""
    if evaluation.baseline is None:
        return {"previous version": "not given"}
    try:
        before, after = against(evaluation, evaluation.baseline)
    except InputError as error:
        return {"previous version": str(error)}
    found = difference(before, after)
    return {
        "worst case": f"{before.cell(WORST)}% before, {after.cell(WORST)}% now: {found.text}",
        "newly broken images": ", ".join(map(str, found.broken)) or "none",
        "newly robust images": ", ".join(map(str, found.rescued)) or "none",
    }
