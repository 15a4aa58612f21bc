"""An evaluation as the table that `print` shows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from athe_tf.results.file_format import Check, Conversion, EightBit, Requirement
from athe_tf.results.norms_and_distances import distances_sentence, randomized_sentence
from athe_tf.results.notices import explained, warning_texts
from athe_tf.utils.number_format import format_number
from athe_tf.utils.streams import printable

if TYPE_CHECKING:
    from athe_tf.results.attack_outcome import AttackOutcome
    from athe_tf.results.result import Result


def text_table(result: "Result") -> str:
    """The table of a result."""
    lines = [
        f"{result.model} on {result.examples} images of {result.dataset}",
        f"{result.norm}, epsilon {result.epsilon_text}, seed {result.seed}",
    ]
    majority = majority_sentence(result)
    lines += [] if majority is None else [majority]
    sentences = eight_bit_sentence(result.eight_bit), conversion_sentence(result.conversion)
    blocks = [_accuracies(result), *([text] for text in sentences if text), _cascades(result), _curve(result)]
    further = distances_sentence(result), randomized_sentence(result.randomized)
    blocks += [_norms(result), *([text] for text in further if text)]
    blocks += [_checks(result), _corruptions(result), _transfer(result), _verification(result)]
    blocks.append([requirement_line(one) for one in result.requirements])
    blocks.append([f"Warning: {text}" for text in warning_texts(result.warnings)])
    for block in blocks:
        lines.extend(["", *block] if block else [])
    # Names that were read from a file may come from anybody.
    return "\n".join(printable(line).replace("\n", " ") for line in lines)


def _accuracies(result: "Result") -> list[str]:
    rows: list[tuple[str, str | None, str]] = [
        ("clean", _share(result.clean_accuracy, result.clean_interval), "")
    ]
    for attack in result.attacks:
        shown = _share(attack.accuracy, attack.interval) if attack.was_run else None
        rows.append((attack.name, shown, _remark(attack, result)))
    if result.worst_case_accuracy is not None:
        shown = _share(result.worst_case_accuracy, result.worst_case_interval)
        covers = "" if result.covered_radius == result.epsilon_text else f" up to {result.covered_radius}"
        rows.append(("worst case", shown, f"per-image worst case over all attacks{covers}"))
    width = max(12, *(len(row[0]) for row in rows))
    lines = [f"{'attack':<{width}}  accuracy   95% interval   time, forward + backward passes"]
    for label, shown, remark in rows:
        if label == "worst case":
            lines.append("-" * (width + 28))
        share = "       -   " if shown is None else f"{shown:<26}"
        lines.append(f"{label:<{width}}  {share}{remark}".rstrip())
    return lines


def _share(share: float, interval) -> str:
    return f"{100 * share:>7.2f}%   {100 * interval[0]:.1f} to {100 * interval[1]:.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}%"


def _remark(attack: "AttackOutcome", result: "Result") -> str:
    if not attack.was_run:
        return f"not run: {attack.not_run}"
    # An attack on few of the images takes less than one pass of all.
    passes = " + ".join(f"{each:.1g}" if 0 < each < 0.5 else f"{each:.0f}" for each in attack.mean_passes)
    # As the file has it: what is read back gives the same table.
    parts = [f"{round(attack.seconds, 2):.1f} s", f"{passes} passes per image"]
    if attack.image_count < result.examples:
        parts.append(f"first {attack.image_count} images")
    if not attack.in_worst_case:
        what = "8-bit images" if attack.name.startswith("8-bit ") else "another threat model"
        where = f" of {result.norm}" if len(result.worst_cases) > 1 else ""
        parts.append(f"{what}: not in the worst case{where}")
    return ", ".join(parts)


def majority_sentence(result: "Result") -> str | None:
    """What always predicting the most frequent class reaches; `None` if classes are about equal."""
    if result.majority is None:
        return None
    label, share = result.majority
    return f"Class {label} has {share:.1%} of the images: always predicting it is right for as many."


def eight_bit_sentence(found: EightBit | None) -> str | None:
    """How many adversarial examples are still adversarial as 8-bit images; `None` if that is unknown.

    Example:

    >>> eight_bit_sentence({"tested": 8, "still_adversarial": 6, "accuracy": 0.25, "interval": [0.1, 0.5]})
    'Rounded to 8 bits, as PNG stores images, 6 of 8 adversarial examples (75.0%) still fool the model: \
the worst case of 8-bit images is at most 25.00%, an upper bound.'
    """
    if not found:
        return None
    share, accuracy = found["still_adversarial"] / found["tested"], f"{100 * found['accuracy']:.2f}%"
    bound = found.get("upper_bound", True)  # older files have no attack on 8-bit images
    return (
        f"Rounded to 8 bits, as PNG stores images, {found['still_adversarial']:,} of {found['tested']:,} "
        f"adversarial examples ({100 * share:.1f}%) still fool the model: the worst case of 8-bit images is "
        f"{f'at most {accuracy}, an upper bound' if bound else accuracy}."
    )


def conversion_sentence(found: Conversion | None) -> str | None:
    """How a file differs from its parent; `None` if the model is no such file."""
    if not found:
        return None
    compared = (
        f"predict the same class for {100 * found['same_predictions']:.1f}% of the clean images; logits "
        f"differ by {found['mean_difference']:.2g} on average and by at most "
        f"{found['largest_difference']:.2g}."
    )
    if "attacks" not in found:
        return (
            f"White box: attacks followed the gradients of {found['parent']}, and an image counts as "
            f"broken only if the file itself errs on it. The two {compared}"
        )
    return (
        f"The parent '{found['parent']}': {100 * found['clean_accuracy']:.2f}% clean, "
        f"{100 * found['worst_case_accuracy']:.2f}% under {', '.join(found['attacks'])}. File and parent "
        f"{compared}"
    )


def _cascades(result: "Result") -> list[str]:
    return [
        f"{attack.name}: after "
        + ", ".join(f"{stage['name']} {100 * stage['accuracy']:.2f}%" for stage in attack.stages)
        for attack in result.attacks
        if attack.stages
    ]


def _curve(result: "Result") -> list[str]:
    rows = [
        f"{format_number(p['epsilon']):<12}  {_share(p['accuracy'], p['interval'])}" for p in result.curve
    ]
    return ["epsilon       worst case", *rows] if rows else []


def _norms(result: "Result") -> list[str]:
    """Each norm, all of them together and their mean; empty for one norm."""
    rows = []
    for model in result.worst_cases:
        name = f"{model['norm']} {model['epsilon']}"
        known = "worst_case_accuracy" in model
        shown = _share(model["worst_case_accuracy"], model["worst_case_interval"]) if known else "unknown"
        rows.append(f"{name:<15}  {shown}")
    if result.union is not None:
        rows.append(f"{'all of them':<15}  {_share(result.union['accuracy'], result.union['interval'])}")
        rows.append(f"{'mean':<15}  {100 * result.union['mean']:>7.2f}%")
    return ["norm             worst case", *rows] if len(rows) > 1 else []


def tally(checks: Sequence[Check]) -> str:
    """The number of checks that passed, failed and were not run.

    Example:

    >>> tally([{"status": "passed"}, {"status": "passed"}, {"status": "not run"}])
    '2 passed, 0 failed, 1 not run'
    """
    statuses = [check["status"] for check in checks]
    return ", ".join(f"{statuses.count(status)} {status}" for status in ("passed", "failed", "not run"))


def _checks(result: "Result") -> list[str]:
    names: dict[tuple[str, str], list[str]] = {}  # several checks may have one reason
    for check in result.checks:
        if check["status"] != "passed":
            names.setdefault((check["status"], check["detail"]), []).append(check["name"])
    lines = [
        f"  {status}: {'; '.join(found)}. {explained(detail, found[0]) if status == 'failed' else detail}"
        for (status, detail), found in names.items()
    ]
    return [f"Sanity checks: {tally(result.checks)}", *lines] if result.checks else []


def requirement_line(one: Requirement) -> str:
    """A requirement and its outcome.

    Example:

    >>> requirement_line({"requirement": "worst_case>=0.45", "met": False, "detail": "40.00%"})
    'Requirement worst_case>=0.45 is not met: 40.00%'
    """
    detail = f": {one['detail']}" if one.get("detail") else ""
    return f"Requirement {one['requirement']} is {'met' if one['met'] else 'not met'}{detail}"


def _corruptions(result: "Result") -> list[str]:
    found = result.corruptions
    if found is None:
        return []
    generated = " (generated here)" if found.get("generated") else ""
    groups = [f"{name} {_percent(share)}" for name, share in found.get("groups", {}).items()]
    lines = [f"Common corruptions{generated}: mean accuracy {_percent(found.get('mca'))}"]
    return [*lines, f"  {', '.join(groups)}"] if groups else lines


def _transfer(result: "Result") -> list[str]:
    found = result.transfer
    if found is None:
        return []
    sources, models = found["sources"], found["targets"]
    first = max(len(source) for source in [*sources, "crafted on"])
    width = max([8, *map(len, models)])
    lines = ["Transfer: accuracy of each model on the adversarial examples of each"]
    lines.append("  ".join(["crafted on".ljust(first), *(name.rjust(width) for name in models)]))
    for source, row in zip(sources, found["accuracy"], strict=True):
        lines.append("  ".join([source.ljust(first), *(_percent(share).rjust(width) for share in row)]))
    return lines


def _verification(result: "Result") -> list[str]:
    return [
        f"{one['tool']}, {one['attack']}: "
        + (f"not run: {one['not_run']}" if "not_run" in one else
           f"{_percent(one['theirs'])} there, {_percent(one['ours'])} here")
        for one in result.verify
    ]  # fmt: skip
