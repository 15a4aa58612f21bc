"""Accuracy by attack: bars with intervals, and the table behind them."""

from athe_tf.numbers import format_number
from athe_tf.report.charts import Bar, bar_chart, figure
from athe_tf.report.entries import counts, epsilon_of, images_of, label, ran, worst_case
from athe_tf.report.markup import Markup, join, table, tag
from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section
from athe_tf.report.texts import count, decimal, duration, interval_text, percent

HEAD = ("", "accuracy", "95 % interval", "epsilon", "time", "forward passes", "gradients", "median norm")
# Colours of the bars.
ATTACKED, WORST, CLEAN, OUTSIDE = 0, 1, 4, 5


def section(evaluation: Evaluation) -> Section:
    """Always there."""
    data = evaluation.data
    caption = (
        "Share of images that are classified correctly, clean and under attack. The whisker is the 95 % "
        "interval (Wilson) that the number of images allows; the worst case counts an image only if it "
        "survives every attack."
    )
    chart = bar_chart(bars(data), f"Accuracy by attack. {_spoken(data)}")
    return Section(
        "Accuracy by attack", "attacks", join([figure(chart, caption), attack_table(data), remarks(data)])
    )


def bars(data: dict) -> list[Bar]:
    """Clean, every attack that was run, and the worst case."""
    attacked = [
        Bar(
            label(attack, data),
            attack["accuracy"],
            attack.get("interval"),
            ATTACKED if counts(attack) else OUTSIDE,
        )
        for attack in ran(data)
    ]
    share, interval = worst_case(data)
    total = [] if share is None else [Bar("worst case", share, interval, WORST)]
    return [Bar("clean", data["clean_accuracy"], data.get("clean_interval"), CLEAN), *attacked, *total]


def _spoken(data: dict) -> str:
    return ", ".join(f"{bar.label} {percent(bar.share, 1)}" for bar in bars(data))


def attack_table(data: dict) -> Markup:
    """One row an attack, its stages below it."""
    rows: list[list] = [["clean", percent(data["clean_accuracy"]), interval_text(data.get("clean_interval"))]]
    kinds: list[str | None] = [None]
    for attack in data["attacks"]:
        rows.append(_row(attack, data))
        kinds.append(None if "accuracy" in attack else "absent")
        for stage in attack.get("stages", ()):
            rows.append(
                [f"after {stage['name']}", percent(stage["accuracy"]), "", "", duration(stage.get("seconds"))]
            )
            kinds.append("stage")
    share, interval = worst_case(data)
    rows.append(["worst case", percent(share), interval_text(interval)])
    kinds.append("total")
    full = [row + [""] * (len(HEAD) - len(row)) for row in rows]
    return table(HEAD, full, caption=f"Accuracy on {count(data['examples'])} images", row_classes=kinds)


def _row(attack: dict, data: dict) -> list:
    name = attack["name"] if counts(attack) else f"{attack['name']} *"
    if "accuracy" not in attack:
        return [name, "not run"]
    return [
        name,
        percent(attack["accuracy"]),
        interval_text(attack.get("interval")),
        format_number(epsilon_of(attack, data)),
        duration(attack.get("seconds")),
        count(attack.get("queries")),
        count(attack.get("gradients")),
        decimal(attack.get("median_norm")),
    ]


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
