"""A model card in Markdown, of what the evaluation knows."""

import re

from athe_tf.report.accessors import counts, epsilon_of, worst_case
from athe_tf.report.format import interval_text, percent, sentence, value_text
from athe_tf.report.reading import Evaluation
from athe_tf.report.verdict import threat, verdict
from athe_tf.utils.number_format import format_number

# The settings of a run that say what a model is; all others are in the run's config.json.
SHOWN = (
    "dataset", "augmentation", "model", "head", "scale", "margin", "framework", "norm", "epsilon", "steps",
    "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "seed",
)  # fmt: skip


def model_card(evaluation: Evaluation) -> str:
    """The card as text."""
    data = evaluation.data
    parts = [
        f"# {plain(data['model'])}",
        plain(verdict(data)),
        training(evaluation.config),
        f"## Evaluation\n\n{plain(data['dataset'])}, {plain(threat(data))}.\n\n{accuracies(data)}",
        checks(data),
        warnings(data),
        repeat(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text) -> str:
    """Text that Markdown leaves as it is, on one line."""
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
    rows = [["clean", "", percent(data["clean_accuracy"]), interval_text(data.get("clean_interval"))]]
    for attack in data["attacks"]:
        name = plain(attack["name"]) + ("" if counts(attack) else r" \*")
        epsilon = format_number(epsilon_of(attack, data))
        if "accuracy" in attack:
            rows.append([name, epsilon, percent(attack["accuracy"]), interval_text(attack.get("interval"))])
        else:
            rows.append([name, epsilon, "not run", plain(attack.get("not_run", ""))])
    share, interval = worst_case(data)
    rows.append(["**worst case**", plain(data["epsilon"]), f"**{percent(share)}**", interval_text(interval)])
    text = grid(["attack", "epsilon", "accuracy", "95 % interval"], rows)
    if all(map(counts, data["attacks"])):
        return text
    return f"{text}\n\n\\* outside the report's threat model: not counted in the worst case."


def checks(data: dict) -> str:
    """The sanity sheet."""
    if not data.get("checks"):
        return ""
    lines = [
        f"- {plain(one['status'])}: {plain(sentence(one['name']))}. {plain(one.get('detail', ''))}".rstrip()
        for one in data["checks"]
    ]
    return "## Sanity sheet\n\n" + "\n".join(lines)


def warnings(data: dict) -> str:
    """What the evaluation warns of."""
    found = data.get("warnings")
    return "## Warnings\n\n" + "\n".join(f"- {plain(text)}" for text in found) if found else ""


def repeat(data: dict) -> str:
    """The command and the versions."""
    parts = []
    if "command" in data:
        # Indented, so that no character of the command can end the block.
        parts.append("\n".join(f"    {line}" for line in data["command"].splitlines()))
    if data.get("versions"):
        parts.append(
            plain(", ".join(f"{name} {version}" for name, version in data["versions"].items())) + "."
        )
    return "## To repeat it\n\n" + "\n\n".join(parts) if parts else ""
