"""Accuracy by attack: bars with intervals, and the table behind them."""

from athe_tf.drawing.charts import Bar, bar_chart, figure
from athe_tf.drawing.markup import Markup, details, join, table, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.evaluation.text_table import eight_bit_sentence
from athe_tf.report.accessors import at_headline, counts, epsilon_of, label, ran, worst_case
from athe_tf.report.format import count, decimal, duration, interval_text, percent
from athe_tf.report.reading import SavedEvaluation
from athe_tf.utils.number_format import format_number

# Passes are averages over the images that were attacked.
HEAD = (
    "", "accuracy", "95 % interval", "epsilon", "time", "forward passes per image",
    "backward passes per image", "median norm", "adversarial at 8 bits",
)  # fmt: skip
# Numbers of the colours of the bars.
ATTACKED, WORST, CLEAN, OUTSIDE = 0, 1, 4, 5


def section(evaluation: SavedEvaluation) -> Section | None:
    """Returns `None` if there are no attacks."""
    data = evaluation.data
    if not data["attacks"]:
        return None
    caption = (
        "Share of images that are classified correctly, clean and under attack. Whiskers are 95 % confidence "
        "intervals (Wilson). In the worst case, an image counts only if it survives every attack."
    )
    chart = bar_chart(bars(data), "Accuracy by attack")
    rounded = eight_bit_sentence(data)
    parts = figure(chart, caption), attack_tables(data), paragraph(rounded) if rounded else "", remarks(data)
    return Section("Accuracy by attack", "attacks", *parts)


def bars(data: dict) -> list[Bar]:
    """Clean, every attack that was run, and the worst case; other epsilons are shown by the curve."""
    attacked = [
        Bar(label(one, data), one["accuracy"], one["interval"], ATTACKED if counts(one) else OUTSIDE)
        for one in ran(data)
        if shown_first(one, data)
    ]
    share, interval = worst_case(data)
    total = [] if share is None else [Bar("worst case", share, interval, WORST)]
    return [Bar("clean", data["clean_accuracy"], data["clean_interval"], CLEAN), *attacked, *total]


def shown_first(attack: dict, data: dict) -> bool:
    """Whether an attack is in the chart and the first table; other epsilons have their own curve."""
    return at_headline(attack, data) or "curve" not in data


def attack_tables(data: dict) -> Markup:
    """The table for the epsilon of the evaluation and, folded, that for the others."""
    first = [attack for attack in data["attacks"] if shown_first(attack, data)]
    others = [attack for attack in data["attacks"] if not shown_first(attack, data)]
    rows = [_row("clean", data["clean_accuracy"], data["clean_interval"]), *_rows(first, data)]
    rows.append(_row("worst case", *worst_case(data), kind="total"))
    tables = _table(rows, f"Accuracy on {count(data['examples'])} images")
    if not others:
        return tables
    folded = details("Other epsilons", _table(_rows(others, data), "Accuracy at other epsilons"))
    return join([tables, folded])


def _table(rows: list[tuple], caption: str) -> Markup:
    cells, kinds = zip(*rows, strict=True)
    return table(HEAD, list(cells), caption=caption, row_classes=kinds)


def _rows(attacks: list[dict], data: dict) -> list[tuple]:
    """One row per attack, with its stages below."""
    rows = []
    for attack in attacks:
        name = attack["name"] if counts(attack) else f"{attack['name']} *"
        if "accuracy" not in attack:
            rows.append(_row(name, None, None, kind="absent"))
            continue
        costs = (
            format_number(epsilon_of(attack, data)),
            duration(attack["seconds"]),
            f"{attack['queries'] / attack['examples']:,.1f}",
            f"{attack['gradients'] / attack['examples']:,.1f}",
            decimal(attack["median_norm"]),
            _at_eight_bits(attack),
        )
        rows.append(_row(name, attack["accuracy"], attack["interval"], costs))
        for stage in attack.get("stages", ()):
            time = ("", duration(stage["seconds"]))
            rows.append(_row(f"after {stage['name']}", stage["accuracy"], (), time, kind="stage"))
    return rows


def _at_eight_bits(attack: dict) -> str:
    """The share of its adversarial examples that are still adversarial as 8-bit images."""
    found = attack.get("eight_bit", {})
    return percent(found["still_adversarial"] / found["tested"]) if found.get("tested") else ""


def _row(name: str, share, interval, costs=(), kind: str | None = None) -> tuple[list[str], str | None]:
    """The cells of a row and its CSS class."""
    accuracy = "not run" if kind == "absent" else percent(share)
    cells = [name, accuracy, interval_text(interval) if interval else "", *costs]
    return cells + [""] * (len(HEAD) - len(cells)), kind


def remarks(data: dict) -> Markup:
    """Why an attack was not run, its remarks, and the meaning of the asterisk."""
    notes: list[Markup] = []
    for attack in data["attacks"]:
        texts = list(attack.get("remarks", ()))
        if "accuracy" not in attack:
            texts.insert(0, f"not run: {attack['not_run']}")
        elif attack["examples"] < data["examples"]:
            texts.insert(0, f"on the first {count(attack['examples'])} images only")
        if attack.get("nonfinite_gradients"):
            texts.append(f"{count(attack['nonfinite_gradients'])} gradients were not finite")
        notes.extend(tag("li", tag("strong", attack["name"]), ": ", text) for text in texts)
    if not all(counts(attack) for attack in data["attacks"]):
        outside = "* outside the threat model of this evaluation: not counted in the worst case"
        notes.append(tag("li", outside))
    return tag("ul", *notes, class_="notes") if notes else Markup("")
