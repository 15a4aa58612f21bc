"""A model card in Markdown."""

import re

from athe_tf.report.format import interval_text, percent, sentence, threat_line, value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.file_format import Check
from athe_tf.results.result import Result
from athe_tf.results.text_table import conversion_sentence, eight_bit_sentence
from athe_tf.utils.number_format import format_number

# The settings of a run that describe the model; all others are in the run's config.json.
SHOWN = (
    "dataset", "augmentation", "model", "head", "scale", "margin", "framework", "norm", "epsilon", "steps",
    "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "seed", "notes",
)  # fmt: skip


def model_card(evaluation: SavedEvaluation) -> str:
    """The card as text."""
    result = evaluation.result
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    parts = [
        f"# {plain(result.model)}",
        plain(result.verdict),
        section("Training", training(evaluation.config or {})),
        section("Evaluation", f"{plain(result.dataset)}, {plain(threat_line(result))}.", accuracies(result)),
        section("Sanity checks", "\n".join(map(check_line, result.checks))),
        section("Warnings", "\n".join(f"- {plain(text)}" for text in [*evaluation.notes, *result.warnings])),
        section("How to reproduce it", command(result.command), plain(versions) + "."),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text) -> str:
    """Escapes Markdown, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(str(text).split()))


def section(title: str, *paragraphs: str) -> str:
    """A title and what follows it; empty without content."""
    return "\n\n".join([f"## {title}", *filter(None, paragraphs)]) if any(paragraphs) else ""


def grid(head, rows) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def training(config: dict) -> str:
    """The settings of the training run."""
    rows = [[plain(name), plain(value_text(config[name]))] for name in SHOWN if config.get(name) is not None]
    return grid(["setting", "value"], rows) if config else ""


def accuracies(result: Result) -> str:
    """Clean, every attack, and the worst case."""
    rows = [["clean", "", percent(result.clean_accuracy), interval_text(result.clean_interval)]]
    for attack in result.attacks:
        name = plain(attack.name) + ("" if attack.in_worst_case else r" \*")
        epsilon = format_number(result.epsilon_of(attack))
        if attack.was_run:
            rows.append([name, epsilon, percent(attack.accuracy), interval_text(attack.interval)])
        else:
            rows.append([name, epsilon, "not run", plain(attack.not_run)])
    total = f"**{percent(result.worst_case_accuracy)}**", interval_text(result.worst_case_interval)
    rows.append(["**worst case**", plain(result.epsilon_text), *total])
    parts = [grid(["attack", "epsilon", "accuracy", "95% interval"], rows)]
    if not all(attack.in_worst_case for attack in result.attacks):
        parts.append(r"\* outside the threat model of this evaluation: not counted in the worst case.")
    sentences = eight_bit_sentence(result.eight_bit), plain(conversion_sentence(result.conversion) or "")
    parts += [text for text in sentences if text]
    return "\n\n".join(parts)


def check_line(check: Check) -> str:
    """A sanity check."""
    return f"- {plain(check['status'])}: {plain(sentence(check['name']))}. {plain(check['detail'])}"


def command(text: str | None) -> str:
    """A block of code; indented, so that no character of the command can end it."""
    return "\n".join(f"    {line}" for line in (text or "").splitlines())
