"""An evaluation as the table that `print` shows."""

from athe_tf.utils.number_format import format_number


def text_table(data: dict) -> str:
    """The table of the content of an `evaluation.json`."""
    lines = [
        f"{data['model']} on {data['examples']} images of {data['dataset']}",
        f"{data['norm']}, epsilon {data['epsilon']}, seed {data['seed']}",
    ]
    for make in _BLOCKS:
        block = make(data)
        lines.extend(["", *block] if block else [])
    return "\n".join(lines)


def _accuracies(data: dict) -> list[str]:
    rows = [("clean", data["clean_accuracy"], data["clean_interval"], "")]
    rows.extend((a["name"], a.get("accuracy"), a.get("interval"), _remark(a, data)) for a in data["attacks"])
    if any(attack.get("in_worst_case") for attack in data["attacks"]):
        remark = "per-image worst case over all attacks"
        rows.append(("worst case", data["worst_case_accuracy"], data["worst_case_interval"], remark))
    width = max(12, *(len(row[0]) for row in rows))
    lines = [f"{'attack':<{width}}  accuracy   95 % interval   time, forward + backward passes"]
    for label, accuracy, interval, remark in rows:
        if label == "worst case":
            lines.append("-" * (width + 28))
        shown = "       -   " if accuracy is None else f"{_share(accuracy, interval):<26}"
        lines.append(f"{label:<{width}}  {shown}{remark}".rstrip())
    return lines


def _share(share: float, interval) -> str:
    return f"{100 * share:>6.2f} %   {100 * interval[0]:.1f} to {100 * interval[1]:.1f}"


def _remark(attack: dict, data: dict) -> str:
    if "not_run" in attack:
        return f"not run: {attack['not_run']}"
    forward, backward = (attack[which] / attack["examples"] for which in ("queries", "gradients"))
    parts = [f"{attack['seconds']:.1f} s", f"{forward:.0f} + {backward:.0f} passes per image"]
    if attack["examples"] < data["examples"]:
        parts.append(f"first {attack['examples']} images")
    if not attack["in_worst_case"]:
        parts.append("another threat model: not in the worst case")
    return ", ".join(parts)


def eight_bit_sentence(data: dict) -> str | None:
    """How many adversarial examples are still adversarial as 8-bit images; `None` if that is unknown.

    Example:

    >>> eight_bit_sentence({"eight_bit": {"tested": 8, "still_adversarial": 6, "accuracy": 0.25}})
    'Rounded to 8 bits, as PNG stores images, 6 of 8 adversarial examples (75.0 %) still fool the model: \
the worst case is 25.00 %.'
    """
    found = data.get("eight_bit")
    if not found:
        return None
    share = found["still_adversarial"] / found["tested"]
    return (
        f"Rounded to 8 bits, as PNG stores images, {found['still_adversarial']:,} of {found['tested']:,} "
        f"adversarial examples ({100 * share:.1f} %) still fool the model: the worst case is "
        f"{100 * found['accuracy']:.2f} %."
    )


def _eight_bit(data: dict) -> list[str]:
    sentence = eight_bit_sentence(data)
    return [] if sentence is None else [sentence]


def conversion_sentence(data: dict) -> str | None:
    """How a file differs from its parent; `None` if the model is no such file."""
    found = data.get("conversion")
    if not found:
        return None
    return (
        f"The parent '{found['parent']}': {100 * found['clean_accuracy']:.2f} % clean, "
        f"{100 * found['worst_case_accuracy']:.2f} % under {', '.join(found['attacks'])}. File and parent "
        f"predict the same class for {100 * found['same_predictions']:.1f} % of the clean images; logits "
        f"differ by {found['mean_difference']:.2g} on average and by at most "
        f"{found['largest_difference']:.2g}."
    )


def _conversion(data: dict) -> list[str]:
    sentence = conversion_sentence(data)
    return [] if sentence is None else [sentence]


def _cascades(data: dict) -> list[str]:
    lines = []
    for attack in data["attacks"]:
        if attack.get("stages"):
            shown = (f"{stage['name']} {100 * stage['accuracy']:.2f} %" for stage in attack["stages"])
            lines.append(f"{attack['name']}: after {', '.join(shown)}")
    return lines


def _curve(data: dict) -> list[str]:
    curve = data.get("curve", ())
    rows = [f"{format_number(p['epsilon']):<12}  {_share(p['accuracy'], p['interval'])}" for p in curve]
    return ["epsilon       worst case", *rows] if rows else []


def _checks(data: dict) -> list[str]:
    checks = data.get("checks", [])
    statuses = [check["status"] for check in checks]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("passed", "failed", "not run"))
    names: dict[tuple[str, str], list[str]] = {}  # several checks may have one reason
    for check in checks:
        if check["status"] != "passed":
            names.setdefault((check["status"], check["detail"]), []).append(check["name"])
    lines = [f"  {status}: {'; '.join(found)}. {detail}" for (status, detail), found in names.items()]
    return [f"Sanity checks: {counts}", *lines] if checks else []


def _corruptions(data: dict) -> list[str]:
    found = data.get("corruptions")
    if found is None:
        return []
    generated = " (generated here)" if found.get("generated") else ""
    groups = ", ".join(f"{name} {100 * value:.2f} %" for name, value in found["groups"].items())
    return [f"Common corruptions{generated}: mean accuracy {100 * found['mca']:.2f} %", f"  {groups}"]


def _transfer(data: dict) -> list[str]:
    found = data.get("transfer")
    if found is None:
        return []
    sources, models = found["sources"], found["targets"]
    first = max(len(source) for source in [*sources, "crafted on"])
    width = max(8, *(len(name) for name in models))
    lines = ["Transfer: accuracy of each model on the adversarial examples of each"]
    lines.append("  ".join(["crafted on".ljust(first), *(name.rjust(width) for name in models)]))
    for source, row in zip(sources, found["accuracy"], strict=True):
        lines.append("  ".join([source.ljust(first), *(f"{100 * a:.2f} %".rjust(width) for a in row)]))
    return lines


def _verification(data: dict) -> list[str]:
    return [f"{entry['tool']}, {entry['attack']}: {_verified(entry)}" for entry in data.get("verify", ())]


def _verified(entry: dict) -> str:
    if "not_run" in entry:
        return f"not run: {entry['not_run']}"
    return f"{100 * entry['theirs']:.2f} % there, {100 * entry['ours']:.2f} % here"


def _warnings(data: dict) -> list[str]:
    return [f"Warning: {text}" for text in data["warnings"]]


_BLOCKS = (
    _accuracies, _eight_bit, _conversion, _cascades, _curve, _checks, _corruptions, _transfer, _verification,
    _warnings,
)  # fmt: skip
