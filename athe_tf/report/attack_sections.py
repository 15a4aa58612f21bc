"""Sections of a report about accuracies: under attack, by epsilon and class, of other models and packages.

Each section is a function that returns its content, empty if the evaluation has no data for it.
"""

from typing import Literal

from athe_tf.drawing.charts import Bar, Series, bar_chart, column_chart, figure, line_chart
from athe_tf.drawing.markup import Markup, details, join, notes, shaded, side_by_side, table, tag
from athe_tf.drawing.plot import share_axis
from athe_tf.report.comparison import CLEAN as CLEAN_COLUMN
from athe_tf.report.comparison import WORST as WORST_COLUMN
from athe_tf.report.comparison import Difference, difference
from athe_tf.report.format import count, decimal, interval_text, percent, points, sentence
from athe_tf.report.gate import against
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.attack_outcome import AttackOutcome
from athe_tf.results.charts import (
    ATTACKED,
    CLEAN,
    WORST,
    accuracy_figure,
    curve_figure,
    epsilon_axis,
    minimum_norms,
    shown_first,
)  # fmt: skip
from athe_tf.results.file_format import Corruptions
from athe_tf.results.norms_and_distances import distances_sentence, randomized_sentence
from athe_tf.results.result import Result
from athe_tf.results.text_table import conversion_sentence, eight_bit_sentence, majority_sentence
from athe_tf.utils.errors import InputError
from athe_tf.utils.number_format import format_duration, format_number

# Passes are averages over the images that were attacked.
HEAD = (
    "", "accuracy", "95% interval", "epsilon", "time", "forward passes per image",
    "backward passes per image", "median norm", "adversarial at 8 bits",
)  # fmt: skip
MOST_CLASSES = 20


def attacks(evaluation: SavedEvaluation) -> list[Markup]:
    """Accuracy by attack: bars with intervals, and the table behind them."""
    result = evaluation.result
    if not result.attacks:
        return []
    sentences = majority_sentence(result), eight_bit_sentence(result.eight_bit)
    texts = [tag("p", text) for text in sentences if text]
    return [accuracy_figure(result), attack_tables(result), *texts, remarks(result)]


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
        rounded = attack.eight_bit_counts or {"tested": 0, "still_adversarial": 0}
        costs = (
            format_number(result.epsilon_of(attack)),
            format_duration(attack.seconds),
            *(f"{passes:,.1f}" for passes in attack.mean_passes),
            decimal(attack.median_norm),
            percent(rounded["still_adversarial"] / rounded["tested"]) if rounded["tested"] else "",
        )
        rows.append(_row(name, attack.accuracy, attack.interval, costs))
        for stage in attack.stages:
            time = ("", format_duration(stage["seconds"]))
            rows.append(_row(f"after {stage['name']}", stage["accuracy"], (), time, kind="stage"))
    return rows


def _row(name: str, share, interval, costs=(), kind: str | None = None) -> tuple[list[str], str | None]:
    """The cells of a row and its CSS class."""
    accuracy = "not run" if kind == "absent" else percent(share)
    cells = [name, accuracy, interval_text(interval) if interval else "", *costs]
    return cells + [""] * (len(HEAD) - len(cells)), kind


def remarks(result: Result) -> Markup:
    """Why an attack was not run, its remarks, and the meaning of the asterisk."""
    found: list = []
    for attack in result.attacks:
        texts = list(attack.remarks)
        if not attack.was_run:
            texts.insert(0, f"not run: {attack.not_run}")
        elif attack.image_count < result.examples:
            texts.insert(0, f"on the first {count(attack.image_count)} images only")
        if attack.nonfinite:
            texts.append(f"{count(attack.nonfinite)} gradients were not finite")
        found.extend(join([tag("strong", attack.name), ": ", text]) for text in texts)
    if not all(attack.in_worst_case for attack in result.attacks):
        found.append("* outside the threat model of this evaluation: not counted in the worst case")
    return notes(found)


def baseline(evaluation: SavedEvaluation) -> list[Markup]:
    """The model beside the baseline, over the attacks that both have."""
    if evaluation.baseline is None:
        return []
    try:
        before, after = against(evaluation, evaluation.baseline)
    except InputError as error:
        return [tag("p", error)]
    found = difference(before, after)
    columns = [CLEAN_COLUMN, *before.common, WORST_COLUMN]
    cells = [(name, before.cell(name), after.cell(name)) for name in columns]
    rows = [
        [name, str(one), str(other), f"{100 * (other.mean - one.mean):+.2f}"]
        for name, one, other in cells
        if one and other
    ]
    head = ("accuracy in %", "before", "after", "change in points")
    about = f"The baseline is {evaluation.baseline.result.model}. Worst case: {found.text}."
    grid = table(head, rows, caption="Before and after, on the same images")
    return [tag("p", about), grid, *changed_sides(found)]


def changed_sides(found: Difference, where: str = "") -> list[Markup]:
    """The positions of the images that changed sides, folded."""
    changed = [("Newly broken images", found.broken), ("Newly robust images", found.rescued)]
    return [
        details(f"{name}{where}: {len(which)}", tag("p", ", ".join(map(str, which))))
        for name, which in changed
        if which
    ]


def conversion(evaluation: SavedEvaluation) -> list[Markup]:
    """A file for another runtime beside its parent, the model that it was made of."""
    result, found = evaluation.result, evaluation.result.conversion
    if not found:
        return []
    if "attacks" not in found:
        return [tag("p", conversion_sentence(found))]
    rows = [
        ["clean", percent(result.clean_accuracy), percent(found["clean_accuracy"])],
        ["worst case", percent(result.worst_case_accuracy), percent(found["worst_case_accuracy"])],
    ]
    intro = (
        "The model is a file without gradients. Attacks on its parent, the model that it was made of, were "
        "tried on it, and attacks that need outputs only were run on the file itself."
    )
    numbers = table(("accuracy", "this file", "parent"), rows, caption="The file and its parent")
    return [tag("p", intro), numbers, tag("p", conversion_sentence(found))]


def judging(evaluation: SavedEvaluation) -> list[Markup]:
    """Which model decided about an image, in how many passes, and whose gradients attacks followed."""
    result, texts = evaluation.result, []
    if result.judge and result.gradient_source:
        judge, source = result.judge["name"], result.gradient_source["name"]
        texts.append(f"Attacks follow the gradients of '{source}'; an image is broken if '{judge}' errs.")
    texts += [text for text in [randomized_sentence(result.randomized)] if text]
    return [tag("p", text) for text in texts]


def curve(evaluation: SavedEvaluation) -> list[Markup]:
    """Accuracy over epsilon, if there are at least two."""
    result = evaluation.result
    curve = sorted(result.curve, key=lambda point: point["epsilon"])
    if len(curve) < 2:
        return []
    rows = [
        [format_number(p["epsilon"]), percent(p["accuracy"]), interval_text(p["interval"])] for p in curve
    ]
    numbers = table(("epsilon", "accuracy", "95% interval"), rows, caption="The points of the curve")
    return [side_by_side(curve_figure(result), numbers)]


def norms(evaluation: SavedEvaluation) -> list[Markup]:
    """The worst case in each norm and in all of them, if there are several."""
    result = evaluation.result
    if len(result.worst_cases) < 2:
        return []
    drawn, rows = [], []
    for model in result.worst_cases:
        name = f"{model['norm']} {model['epsilon']}"
        if "worst_case_accuracy" in model:
            drawn.append(Bar(name, model["worst_case_accuracy"], model["worst_case_interval"], ATTACKED))
        else:
            rows.append([name, "no attack on all images", ""])
    caption = "The worst case over all attacks of each norm."
    if result.union is not None:
        drawn.append(Bar("all of them", result.union["accuracy"], result.union["interval"], WORST))
        caption += (
            " In 'all of them', an image counts only if it survives every attack in every norm. The mean "
            f"over the norms is {percent(result.union['mean'])}."
        )
    rows = [[bar.label, percent(bar.share), interval_text(bar.interval)] for bar in drawn] + rows
    numbers = table(("norm, radius", "accuracy", "95% interval"), rows, caption="Worst cases by norm")
    return [side_by_side(figure(bar_chart(drawn, "Worst case by norm"), caption), numbers)]


def distances(evaluation: SavedEvaluation) -> list[Markup]:
    """The curve of accuracy over distance that minimum-norm attacks give, and the area below it."""
    result, found = evaluation.result, evaluation.result.distances
    if not found:
        return []
    series = [
        Series("all together", [(p["epsilon"], p["accuracy"]) for p in found["points"]], dots=False),
        *(minimum_norms(result, found["radius"]) if len(found["attacks"]) > 1 else []),
    ]
    axis = epsilon_axis([p["epsilon"] for p in found["points"]] + [result.epsilon], result.norm)
    marker = (result.epsilon, "headline epsilon") if result.epsilon else None
    chart = line_chart(series, axis, share_axis(""), "Share of images whose distance is larger", marker)
    caption = (
        "Share of images whose nearest adversarial example, as minimum-norm attacks found it in one run, is "
        "farther away. The area below is the expected robustness: the mean distance, cut at the right edge."
    )
    text = tag("p", distances_sentence(result))
    return [figure(chart, caption, [one.name for one in series]), text]


def classes(evaluation: SavedEvaluation) -> list[Markup]:
    """Accuracy per class, clean and in the worst case."""
    result, found = evaluation.result, evaluation.result.per_class
    if found is None:
        return []
    known = zip(found["count"], found["clean"], found["worst_case"], strict=True)
    seen = [number for number, (images, *both) in enumerate(known) if images and None not in both]
    if not seen:
        return []
    # Key, name and color. Without an attack that counts, the worst case equals the clean accuracy.
    series: list[tuple[Literal["clean", "worst_case"], str, int]]
    series = [("clean", "clean", CLEAN), ("worst_case", "worst case", WORST)]
    series = series[:1] if result.worst_case_accuracy is None else series
    key, name, _ = series[-1]
    chosen = lowest(seen, found[key])
    weakest = min(seen, key=found[key].__getitem__)  # type: ignore[arg-type]
    caption = (
        f"The weakest class ({name}) is {result.class_name(weakest)}, with {percent(found[key][weakest], 1)}."
    )
    if len(chosen) < len(seen):
        caption += f" Shown are the {len(chosen)} lowest of {len(seen)} classes."
    groups = [(name, color, [found[key][number] for number in chosen]) for key, name, color in series]
    chart = column_chart(
        [result.class_name(number) for number in chosen], groups, f"Accuracy by class. {caption}", "class"
    )
    picture = figure(chart, caption, [one[1] for one in series], boxes=[one[2] for one in series])
    rows = [
        [result.class_name(number), *(points(found[key][number]) for key, _, _ in series), count(images)]
        for number, images in enumerate(found["count"])
    ]
    head = ("class", *(f"{name} %" for _, name, _ in series), "images")
    return [picture, details("All classes", table(head, rows, caption="Accuracy by class"))]


def lowest(classes: list[int], accuracies: list) -> list[int]:
    """All classes, or those with the lowest accuracy if there are many; in numerical order.

    Example:

    >>> lowest([0, 2], [0.5, None, 0.1])
    [0, 2]
    """
    return sorted(sorted(classes, key=lambda number: accuracies[number])[:MOST_CLASSES])


def corruptions(evaluation: SavedEvaluation) -> list[Markup]:
    """Accuracy under common corruptions: by type and severity, and by group."""
    found = evaluation.result.corruptions
    if not found:
        return []
    parts = [tag("p", summary(found))]
    groups = {name: share for name, share in found.get("groups", {}).items() if share is not None}
    if groups:
        chart = bar_chart([Bar(name, share) for name, share in groups.items()], "By group")
        parts.append(figure(chart, "Mean accuracy by group of corruptions, over all severities."))
    rows = []
    for name, shares in found["accuracy"].items():
        known = [share for share in shares if share is not None]
        mean = sum(known) / len(known) if known else None
        cells = [shaded(share, points(share, 1)) for share in [*shares, mean]]
        rows.append([name.replace("_", " "), *cells])
    head = ("", *(f"severity {level}" for level in found["severities"]), "mean")
    return [*parts, table(head, rows, caption="Accuracy in % by corruption and severity")]


def summary(found: Corruptions) -> str:
    """The headline numbers, and the source of the images."""
    means = {"accuracy (mCA)": found.get("mca"), "error (mCE)": found.get("mce")}
    figures = [f"mean corruption {name} {percent(mean)}" for name, mean in means.items() if mean is not None]
    source = (
        "The corruptions were generated by athe_tf, and differ in detail from the published sets: compare "
        "these numbers with each other, not with published tables."
        if found.get("generated")
        else "These are the published images."
    )
    if "protocol" in found:
        source += f" Measured on {found['protocol']}."
    source = " ".join([source, *found.get("remarks", [])])
    return f"{sentence(' and '.join(figures))}. {source}" if figures else source


def transfer(evaluation: SavedEvaluation) -> list[Markup]:
    """Adversarial examples of one model, tested on others."""
    found = evaluation.result.transfer
    if not found:
        return []
    rows = [
        [source, *(shaded(share, points(share, 1)) for share in shares)]
        for source, shares in zip(found["sources"], found["accuracy"], strict=True)
    ]
    attack = f" by {found['attack']}" if "attack" in found else ""
    intro = f"Adversarial examples crafted{attack} on the model of the row, classified by that of the column."
    matrix = table(("crafted on", *found["targets"]), rows, caption="Accuracy in % under transfer")
    return [tag("p", intro), matrix]


def verification(evaluation: SavedEvaluation) -> list[Markup]:
    """The same attacks by independent code."""
    rows, missing = [], []
    for one in evaluation.result.verify:
        name = f"{one['tool']}, {one['attack']}"
        if "not_run" in one:
            missing.append(join([tag("strong", name), f": not run: {one['not_run']}"]))
        else:
            difference = f"{100 * one['difference']:+.2f} points"
            rows.append([name, percent(one["ours"]), percent(one["theirs"]), difference])
    if not rows and not missing:
        return []
    intro = tag("p", "The same attacks at the same epsilon, by independent code.")
    head = ("", "athe_tf", "other package", "difference")
    numbers = table(head, rows, caption="Cross-examination") if rows else Markup("")
    return [intro, numbers, notes(missing)]
