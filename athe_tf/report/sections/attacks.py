"""Accuracy by attack: bars with intervals, and the table behind them."""

from athe_tf.report.accessors import at_headline, counts, epsilon_of, images_of, label, ran, worst_case
from athe_tf.report.charts import Bar, bar_chart, figure
from athe_tf.report.format import count, decimal, duration, interval_text, percent
from athe_tf.report.markup import Markup, details, join, table, tag
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section
from athe_tf.utils.number_format import format_number

HEAD = ("", "accuracy", "95 % interval", "epsilon", "time", "forward passes", "gradients", "median norm")
# Colours of the bars.
ATTACKED, WORST, CLEAN, OUTSIDE = 0, 1, 4, 5


def section(evaluation: Evaluation) -> Section | None:
    """Where there are attacks, run or not."""
    data = evaluation.data
    if not data["attacks"]:
        return None
    caption = (
        "Share of images that are classified correctly, clean and under attack. The whisker is the 95 % "
        "interval (Wilson) that the number of images allows; the worst case counts an image only if it "
        "survives every attack."
    )
    chart = bar_chart(bars(data), f"Accuracy by attack. {_spoken(data)}")
    return Section(
        "Accuracy by attack", "attacks", join([figure(chart, caption), attack_tables(data), remarks(data)])
    )


def bars(data: dict) -> list[Bar]:
    """Clean, every attack that was run, and the worst case; other epsilons are left to the curve."""
    attacked = [
        Bar(
            label(attack, data),
            attack["accuracy"],
            attack.get("interval"),
            ATTACKED if counts(attack) else OUTSIDE,
        )
        for attack in ran(data)
        if shown_first(attack, data)
    ]
    share, interval = worst_case(data)
    total = [] if share is None else [Bar("worst case", share, interval, WORST)]
    return [Bar("clean", data["clean_accuracy"], data.get("clean_interval"), CLEAN), *attacked, *total]


def _spoken(data: dict) -> str:
    return ", ".join(f"{bar.label} {percent(bar.share, 1)}" for bar in bars(data))


def shown_first(attack: dict, data: dict) -> bool:
    """Whether an attack is in the chart and the first table; other epsilons have a curve of their own."""
    return at_headline(attack, data) or "curve" not in data


def attack_tables(data: dict) -> Markup:
    """The table of the report's epsilon and, folded, that of the others."""
    first = [attack for attack in data["attacks"] if shown_first(attack, data)]
    others = [attack for attack in data["attacks"] if not shown_first(attack, data)]
    rows = [_row("clean", data["clean_accuracy"], data.get("clean_interval")), *_rows(first, data)]
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
    """One row an attack, its stages below it."""
    rows = []
    for attack in attacks:
        name = attack["name"] if counts(attack) else f"{attack['name']} *"
        if "accuracy" not in attack:
            rows.append(_row(name, None, None, kind="absent"))
            continue
        costs = (
            format_number(epsilon_of(attack, data)),
            duration(attack.get("seconds")),
            count(attack.get("queries")),
            count(attack.get("gradients")),
            decimal(attack.get("median_norm")),
        )
        rows.append(_row(name, attack["accuracy"], attack.get("interval"), costs))
        for stage in attack.get("stages", ()):
            time = ("", duration(stage.get("seconds")))
            rows.append(_row(f"after {stage['name']}", stage["accuracy"], (), time, kind="stage"))
    return rows


def _row(name: str, share, interval, costs=(), kind: str | None = None) -> tuple[list[str], str | None]:
    """The cells of a row and its class."""
    accuracy = "not run" if kind == "absent" else percent(share)
    cells = [name, accuracy, interval_text(interval) if interval else "", *costs]
    return cells + [""] * (len(HEAD) - len(cells)), kind


def remarks(data: dict) -> Markup:
    """Why an attack was not run, what it has to say, and what the star means."""
    notes: list[Markup] = []
    for attack in data["attacks"]:
        texts = list(attack.get("remarks", ()))
        if "accuracy" not in attack:
            texts.insert(0, f"not run: {attack.get('not_run', 'no reason was given')}")
        elif images_of(attack, data) < data["examples"]:
            texts.insert(0, f"on the first {count(images_of(attack, data))} images only")
        if attack.get("nonfinite_gradients"):
            texts.append(f"{count(attack['nonfinite_gradients'])} gradients were not finite")
        notes.extend(tag("li", tag("strong", attack["name"]), ": ", text) for text in texts)
    if not all(counts(attack) for attack in data["attacks"]):
        notes.append(tag("li", "* outside the report's threat model: not counted in the worst case"))
    return tag("ul", join(notes), class_="notes") if notes else Markup("")
