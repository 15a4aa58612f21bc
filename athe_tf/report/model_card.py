"""A model card in Markdown."""

import re

from athe_tf.evaluation.text_table import conversion_sentence, eight_bit_sentence
from athe_tf.report.accessors import counts, epsilon_of, threat_line, worst_case
from athe_tf.report.format import interval_text, percent, sentence, value_text
from athe_tf.report.reading import SavedEvaluation
from athe_tf.utils.number_format import format_number

# The settings of a run that describe the model; all others are in the run's config.json.
SHOWN = (
    "dataset", "augmentation", "model", "head", "scale", "margin", "framework", "norm", "epsilon", "steps",
    "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "seed",
)  # fmt: skip


def model_card(evaluation: SavedEvaluation) -> str:
    """The card as text."""
    data = evaluation.data
    parts = [
        f"# {plain(data['model'])}",
        plain(data["verdict"]),
        training(evaluation.config),
        f"## Evaluation\n\n{plain(data['dataset'])}, {plain(threat_line(data))}.\n\n{accuracies(data)}",
        checks(data),
        warnings([*evaluation.notes, *data["warnings"]]),
        repeat(data),
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


def accuracies(data: dict) -> str:
    """Clean, every attack, and the worst case."""
    rows = [["clean", "", percent(data["clean_accuracy"]), interval_text(data["clean_interval"])]]
    for attack in data["attacks"]:
        name = plain(attack["name"]) + ("" if counts(attack) else r" \*")
        epsilon = format_number(epsilon_of(attack, data))
        if "accuracy" in attack:
            rows.append([name, epsilon, percent(attack["accuracy"]), interval_text(attack["interval"])])
        else:
            rows.append([name, epsilon, "not run", plain(attack["not_run"])])
    share, interval = worst_case(data)
    rows.append(["**worst case**", plain(data["epsilon"]), f"**{percent(share)}**", interval_text(interval)])
    parts = [grid(["attack", "epsilon", "accuracy", "95 % interval"], rows)]
    if not all(map(counts, data["attacks"])):
        parts.append(r"\* outside the threat model of this evaluation: not counted in the worst case.")
    parts += [text for text in (eight_bit_sentence(data), plain(conversion_sentence(data) or "")) if text]
    return "\n\n".join(parts)


def checks(data: dict) -> str:
    """The sanity checks."""
    lines = [
        f"- {plain(one['status'])}: {plain(sentence(one['name']))}. {plain(one['detail'])}"
        for one in data.get("checks", ())
    ]
    return "## Sanity checks\n\n" + "\n".join(lines) if lines else ""


def warnings(found: list[str]) -> str:
    """The warnings of the evaluation."""
    return "## Warnings\n\n" + "\n".join(f"- {plain(text)}" for text in found) if found else ""


def repeat(data: dict) -> str:
    """The command and the versions."""
    parts = []
    if "command" in data:
        # Indented, so that no character of the command can end the block.
        parts.append("\n".join(f"    {line}" for line in data["command"].splitlines()))
    versions = (f"{name} {version}" for name, version in data["versions"].items())
    parts.append(plain(", ".join(versions)) + ".")
    return "## How to reproduce it\n\n" + "\n\n".join(parts)
