"""Accuracy by attack: bars with intervals, and the table behind them."""

from athe_tf.drawing.charts import Bar, bar_chart, figure
from athe_tf.drawing.markup import Markup, details, join, table, tag
from athe_tf.drawing.page import Section, paragraph
from athe_tf.report.format import count, decimal, duration, interval_text, percent
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.result import AttackOutcome, Result
from athe_tf.results.text_table import eight_bit_sentence
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
    result = evaluation.result
    if not result.attacks:
        return None
    caption = (
        "Share of images that are classified correctly, clean and under attack. Whiskers are 95 % confidence "
        "intervals (Wilson). In the worst case, an image counts only if it survives every attack."
    )
    chart = bar_chart(bars(result), "Accuracy by attack")
    rounded = eight_bit_sentence(result.eight_bit)
    tables, notes = attack_tables(result), remarks(result)
    parts = figure(chart, caption), tables, paragraph(rounded) if rounded else "", notes
    return Section("Accuracy by attack", "attacks", *parts)


def bars(result: Result) -> list[Bar]:
    """Clean, every attack that was run, and the worst case; other epsilons are shown by the curve."""
    attacked = [
        Bar(result.label(one), one.accuracy, one.interval, ATTACKED if one.in_worst_case else OUTSIDE)
        for one in result.ran
        if shown_first(one, result)
    ]
    share, interval = result.worst_case_accuracy, result.worst_case_interval
    total = [] if share is None else [Bar("worst case", share, interval, WORST)]
    return [Bar("clean", result.clean_accuracy, result.clean_interval, CLEAN), *attacked, *total]


def shown_first(attack: AttackOutcome, result: Result) -> bool:
    """Whether an attack is in the chart and the first table; other epsilons have their own curve."""
    return result.at_headline(attack) or not result.curve


def attack_tables(result: Result) -> Markup:
    """The table for the epsilon of the evaluation and, folded, that for the others."""
    first = [attack for attack in result.attacks if shown_first(attack, result)]
    others = [attack for attack in result.attacks if not shown_first(attack, result)]
    rows = [_row("clean", result.clean_accuracy, result.clean_interval), *_rows(first, result)]
    rows.append(_row("worst case", result.worst_case_accuracy, result.worst_case_interval, kind="total"))
    tables = _table(rows, f"Accuracy on {count(result.examples)} images")
    if not others:
        return tables
    folded = details("Other epsilons", _table(_rows(others, result), "Accuracy at other epsilons"))
    return join([tables, folded])


def _table(rows: list[tuple], caption: str) -> Markup:
    cells, kinds = zip(*rows, strict=True)
    return table(HEAD, list(cells), caption=caption, row_classes=kinds)


def _rows(attacks: list[AttackOutcome], result: Result) -> list[tuple]:
    """One row per attack, with its stages below."""
    rows = []
    for attack in attacks:
        name = attack.name if attack.in_worst_case else f"{attack.name} *"
        if not attack.was_run:
            rows.append(_row(name, None, None, kind="absent"))
            continue
        costs = (
            format_number(result.epsilon_of(attack)),
            duration(attack.seconds),
            *(f"{passes:,.1f}" for passes in attack.mean_passes),
            decimal(attack.median_norm),
            _at_eight_bits(attack),
        )
        rows.append(_row(name, attack.accuracy, attack.interval, costs))
        for stage in attack.stages:
            time = ("", duration(stage["seconds"]))
            rows.append(_row(f"after {stage['name']}", stage["accuracy"], (), time, kind="stage"))
    return rows


def _at_eight_bits(attack: AttackOutcome) -> str:
    """The share of its adversarial examples that are still adversarial as 8-bit images."""
    found = attack.eight_bit_counts
    return percent(found["still_adversarial"] / found["tested"]) if found and found["tested"] else ""


def _row(name: str, share, interval, costs=(), kind: str | None = None) -> tuple[list[str], str | None]:
    """The cells of a row and its CSS class."""
    accuracy = "not run" if kind == "absent" else percent(share)
    cells = [name, accuracy, interval_text(interval) if interval else "", *costs]
    return cells + [""] * (len(HEAD) - len(cells)), kind


def remarks(result: Result) -> Markup:
    """Why an attack was not run, its remarks, and the meaning of the asterisk."""
    notes: list[Markup] = []
    for attack in result.attacks:
        texts = list(attack.remarks)
        if not attack.was_run:
            texts.insert(0, f"not run: {attack.not_run}")
        elif attack.image_count < result.examples:
            texts.insert(0, f"on the first {count(attack.image_count)} images only")
        if attack.nonfinite:
            texts.append(f"{count(attack.nonfinite)} gradients were not finite")
        notes.extend(tag("li", tag("strong", attack.name), ": ", text) for text in texts)
    if not all(attack.in_worst_case for attack in result.attacks):
        outside = "* outside the threat model of this evaluation: not counted in the worst case"
        notes.append(tag("li", outside))
    return tag("ul", *notes, class_="notes") if notes else Markup("")
