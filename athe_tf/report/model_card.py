"""A model card in Markdown."""

import re

from athe_tf.report.format import interval_text, percent, sentence, threat_line, value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.result import Result
from athe_tf.results.text_table import conversion_sentence, eight_bit_sentence
from athe_tf.utils.number_format import format_number

# The settings of a run that describe the model; all others are in the run's config.json.
SHOWN = (
    "dataset", "augmentation", "model", "head", "scale", "margin", "framework", "norm", "epsilon", "steps",
    "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "seed",
)  # fmt: skip


def model_card(evaluation: SavedEvaluation) -> str:
    """The card as text."""
    result = evaluation.result
    parts = [
        f"# {plain(result.model)}",
        plain(result.verdict),
        training(evaluation.config),
        f"## Evaluation\n\n{plain(result.dataset)}, {plain(threat_line(result))}.\n\n{accuracies(result)}",
        checks(result),
        warnings([*evaluation.notes, *result.warnings]),
        repeat(result),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text) -> str:
    """Escapes Markdown, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(str(text).split()))


def grid(head, rows) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def training(config: dict | None) -> str:
    """The settings of the training run."""
    if config is None:
        return ""
    rows = [[plain(name), plain(value_text(config[name]))] for name in SHOWN if config.get(name) is not None]
    return f"## Training\n\n{grid(['setting', 'value'], rows)}"


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


def checks(result: Result) -> str:
    """The sanity checks."""
    lines = [
        f"- {plain(one['status'])}: {plain(sentence(one['name']))}. {plain(one['detail'])}"
        for one in result.checks
    ]
    return "## Sanity checks\n\n" + "\n".join(lines) if lines else ""


def warnings(found: list[str]) -> str:
    """The warnings of the evaluation."""
    return "## Warnings\n\n" + "\n".join(f"- {plain(text)}" for text in found) if found else ""


def repeat(result: Result) -> str:
    """The command and the versions."""
    parts = []
    if result.command is not None:
        # Indented, so that no character of the command can end the block.
        parts.append("\n".join(f"    {line}" for line in result.command.splitlines()))
    versions = (f"{name} {version}" for name, version in result.versions.items())
    parts.append(plain(", ".join(versions)) + ".")
    return "## How to reproduce it\n\n" + "\n\n".join(parts)
