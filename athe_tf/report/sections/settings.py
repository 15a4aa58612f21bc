"""What was run, exactly, and how to run it again."""

from athe_tf.report.accessors import label
from athe_tf.report.format import value_text
from athe_tf.report.markup import Markup, details, join, table, tag
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section, paragraph

HEADLINE = {
    "model": "model",
    "run": "training run",
    "dataset": "data",
    "examples": "images",
    "classes": "classes",
    "norm": "norm",
    "epsilon": "epsilon",
    "protocol": "protocol",
    "seed": "seed",
}


def section(evaluation: Evaluation) -> Section:
    """Always there."""
    data = evaluation.data
    rows = [[name, value_text(data[key])] for key, name in HEADLINE.items() if key in data]
    rows += [
        [name.replace("_", " "), value_text(value)]
        for name, value in data.get("settings", {}).items()
        if name not in HEADLINE
    ]
    parts = [table(("setting", "value"), rows, caption="Settings of the evaluation", numeric_from=2)]
    parts.append(attack_settings(data))
    if data.get("versions"):
        versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
        parts.append(paragraph(tag("strong", "Versions: "), versions))
    if "command" in data:
        parts += [
            paragraph(tag("strong", "To repeat it:")),
            tag("pre", tag("code", data["command"]), tabindex="0"),
        ]
    return Section("Settings", "settings", join(parts))


def attack_settings(data: dict) -> Markup:
    """The settings of every attack, folded."""
    rows = [
        [label(attack, data), value_text(attack["settings"])]
        for attack in data["attacks"]
        if attack.get("settings")
    ]
    if not rows:
        return Markup("")
    return details(
        "Settings of every attack",
        table(("attack", "settings"), rows, caption="Settings of the attacks", numeric_from=2),
    )
