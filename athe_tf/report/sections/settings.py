"""The exact settings, and how to reproduce the evaluation."""

from athe_tf.drawing.markup import Markup, details, table, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.accessors import label
from athe_tf.report.format import value_text
from athe_tf.report.reading import SavedEvaluation

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


def section(evaluation: SavedEvaluation) -> Section:
    """Never `None`."""
    data = evaluation.data
    rows = [[name, value_text(data[key])] for key, name in HEADLINE.items() if key in data]
    others = {name: value for name, value in data.get("settings", {}).items() if name not in HEADLINE}
    rows += [[name.replace("_", " "), value_text(value)] for name, value in others.items()]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    parts = [
        table(("setting", "value"), rows, caption="Settings of the evaluation", numeric_from=2),
        attack_settings(data),
        paragraph(tag("strong", "Versions: "), versions),
    ]
    if "command" in data:
        parts.append(paragraph(tag("strong", "To reproduce it:")))
        parts.append(tag("pre", tag("code", data["command"]), tabindex="0"))
    return Section("Settings", "settings", *parts)


def attack_settings(data: dict) -> Markup:
    """The settings of all attacks, folded."""
    known = [attack for attack in data["attacks"] if attack.get("settings")]
    rows = [[label(attack, data), value_text(attack["settings"])] for attack in known]
    grid = table(("attack", "settings"), rows, caption="Settings of the attacks", numeric_from=2)
    return details("Settings of all attacks", grid) if rows else Markup("")
