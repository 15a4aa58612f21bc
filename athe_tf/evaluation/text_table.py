"""A report in words: the verdict, and the table that `print` shows."""

from typing import TYPE_CHECKING

import numpy as np

from athe_tf.evaluation.intervals import wilson_interval
from athe_tf.utils.number_format import format_number

if TYPE_CHECKING:
    from athe_tf.evaluation.result import AttackReport, Report


def verdict(report: "Report") -> str:
    """The whole report in one or two sentences."""
    clean = f"{report.clean_accuracy:.1%} of {report.examples:,} images are classified correctly"
    if report.corruptions is not None and not report.counted:
        return f"{clean}, and {report.corruptions['mca']:.1%} under common corruptions. No attack was run."
    if not report.counted:
        return f"{clean}. No attack was run within the threat model, so nothing is known of its robustness."
    low, high = wilson_interval(int(report.robust.sum()), report.examples)
    count = len(report.counted)
    attacks = f"all {count} attacks" if count > 1 else report.counted[0].name
    text = (
        f"{clean}, and {report.worst_case_accuracy:.1%} (95 % interval {100 * low:.1f} to "
        f"{100 * high:.1f} %) withstand {attacks} within {report.norm} {format_number(report.epsilon)}."
    )
    return f"{text} {_doubts(report)}".rstrip()


def _doubts(report: "Report") -> str:
    failed = [check["name"] for check in report.checks if check["status"] == "failed"]
    if failed:
        what = "A sanity check failed" if len(failed) == 1 else f"{len(failed)} sanity checks failed"
        return f"{what}, so do not rely on this number yet: {'; '.join(failed)}."
    if report.warnings:
        return "Read the warnings before you rely on this number."
    return ""


def table(report: "Report") -> str:
    """What `print` shows."""
    lines = [
        f"{report.model} on {report.examples} images of {report.dataset}",
        f"{report.norm}, epsilon {format_number(report.epsilon)}, seed {report.seed}",
        "",
        *_accuracies(report),
    ]
    for block in (_stages(report), _curve(report), _checks(report), _corruptions(report)):
        lines.extend(["", *block] if block else [])
    for block in (_transfer(report), _verification(report), _warnings(report)):
        lines.extend(["", *block] if block else [])
    return "\n".join(lines)


def _accuracies(report: "Report") -> list[str]:
    rows: list[tuple[str, np.ndarray | None, str]] = [("clean", report.correct, "")]
    rows.extend((attack.name, attack.robust, _remark(attack, report)) for attack in report.attacks)
    if report.counted:
        rows.append(("worst case", report.robust, "over all attacks, image by image"))
    width = max(12, *(len(label) for label, _, _ in rows))
    lines = [f"{'attack':<{width}}  accuracy   95 % interval"]
    for label, flags, remark in rows:
        if label == "worst case":
            lines.append("-" * (width + 28))
        if flags is None:
            lines.append(f"{label:<{width}}         -   {remark}")
            continue
        low, high = wilson_interval(int(flags.sum()), len(flags))
        shown = f"{100 * flags.mean():>6.2f} %   {100 * low:.1f} to {100 * high:.1f}"
        lines.append(f"{label:<{width}}  {shown:<26}{remark}".rstrip())
    return lines


def _remark(attack: "AttackReport", report: "Report") -> str:
    if attack.robust is None:
        return f"not run: {attack.reason}"
    parts = [f"{attack.seconds:.1f} s"]
    if len(attack.robust) < report.examples:
        parts.append(f"first {len(attack.robust)} images")
    if not attack.counts:
        parts.append("another threat model: not in the worst case")
    return ", ".join(parts)


def _stages(report: "Report") -> list[str]:
    lines = []
    for attack in report.attacks:
        if attack.stages:
            shown = (f"{stage['name']} {100 * stage['accuracy']:.2f} %" for stage in attack.stages)
            lines.append(f"{attack.name}: after {', '.join(shown)}")
    return lines


def _curve(report: "Report") -> list[str]:
    points = report.curve
    if not points:
        return []
    lines = ["epsilon       worst case"]
    for point in points:
        low, high = (100 * bound for bound in point["interval"])
        radius, accuracy = format_number(point["epsilon"]), 100 * point["accuracy"]
        lines.append(f"{radius:<12}  {accuracy:>6.2f} %   {low:.1f} to {high:.1f}")
    return lines


def _checks(report: "Report") -> list[str]:
    if not report.checks:
        return []
    statuses = [check["status"] for check in report.checks]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("passed", "failed", "not run"))
    lines = [f"Sanity checks: {counts}"]
    for check in report.checks:
        if check["status"] != "passed":
            lines.append(f"  {check['status']}: {check['name']}. {check['detail']}")
    return lines


def _corruptions(report: "Report") -> list[str]:
    if report.corruptions is None:
        return []
    made = " (generated here)" if report.corruptions.get("generated") else ""
    groups = ", ".join(f"{name} {100 * value:.2f} %" for name, value in report.corruptions["groups"].items())
    return [
        f"Common corruptions{made}: mean accuracy {100 * report.corruptions['mca']:.2f} %",
        f"  {groups}",
    ]


def _transfer(report: "Report") -> list[str]:
    if report.transfer is None:
        return []
    sources, targets = report.transfer["sources"], report.transfer["targets"]
    first = max(len(source) for source in [*sources, "made on"])
    width = max(8, *(len(name) for name in targets))
    lines = ["Transfer: accuracy of each model on what was made on each"]
    lines.append("  ".join(["made on".ljust(first), *(name.rjust(width) for name in targets)]))
    for source, row in zip(sources, report.transfer["accuracy"], strict=True):
        lines.append("  ".join([source.ljust(first), *(f"{100 * a:.2f} %".rjust(width) for a in row)]))
    return lines


def _verification(report: "Report") -> list[str]:
    lines = []
    for entry in report.verify:
        if "not_run" in entry:
            lines.append(f"{entry['tool']}, {entry['attack']}: not run: {entry['not_run']}")
        else:
            lines.append(
                f"{entry['tool']}, {entry['attack']}: {100 * entry['theirs']:.2f} % there, "
                f"{100 * entry['ours']:.2f} % here"
            )
    return lines


def _warnings(report: "Report") -> list[str]:
    return [f"Warning: {text}" for text in report.warnings]
