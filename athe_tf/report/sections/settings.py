"""The exact settings, and how to reproduce the evaluation."""

from athe_tf.drawing.markup import Markup, details, table, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.format import value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.result import Result

HEADLINE = {
    "model": "model",
    "run": "training run",
    "dataset": "data",
    "examples": "images",
    "classes": "classes",
    "norm": "norm",
    "epsilon_text": "epsilon",
    "protocol": "protocol",
    "seed": "seed",
}


def section(evaluation: SavedEvaluation) -> Section:
    """Never `None`."""
    result = evaluation.result
    shown = [(name, getattr(result, key)) for key, name in HEADLINE.items()]
    rows = [[name, value_text(value)] for name, value in shown if value is not None]
    others = {name: value for name, value in result.settings.items() if name not in (*HEADLINE, "epsilon")}
    rows += [[name.replace("_", " "), value_text(value)] for name, value in others.items()]
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    parts = [
        table(("setting", "value"), rows, caption="Settings of the evaluation", numeric_from=2),
        attack_settings(result),
        paragraph(tag("strong", "Versions: "), versions),
    ]
    if result.command is not None:
        parts.append(paragraph(tag("strong", "To reproduce it:")))
        parts.append(tag("pre", tag("code", result.command), tabindex="0"))
    return Section("Settings", "settings", *parts)


def attack_settings(result: Result) -> Markup:
    """The settings of all attacks, folded."""
    known = [attack for attack in result.attacks if attack.settings]
    rows = [[result.label(attack), value_text(attack.settings)] for attack in known]
    grid = table(("attack", "settings"), rows, caption="Settings of the attacks", numeric_from=2)
    return details("Settings of all attacks", grid) if rows else Markup("")
