"""How to read the parts of an evaluation."""

from athe_tf.report.format import plural
from athe_tf.utils.number_format import format_number, parse_number


def ran(data: dict) -> list[dict]:
    """The attacks that were run."""
    return [attack for attack in data["attacks"] if "accuracy" in attack]


def counts(attack: dict) -> bool:
    """Whether an attack stays within the threat model of the evaluation, and so counts in the worst case."""
    return attack.get("in_worst_case", True)


def worst_case(data: dict) -> tuple[float | None, list[float] | None]:
    """The accuracy over all attacks with its interval; `None` if no attack counts."""
    if not any(map(counts, ran(data))):
        return None, None
    return data["worst_case_accuracy"], data["worst_case_interval"]


def epsilon_of(attack: dict, data: dict) -> float:
    """The radius of an attack, by default that of the evaluation."""
    return attack.get("epsilon", parse_number(data["epsilon"]))


def at_headline(attack: dict, data: dict) -> bool:
    """Whether an attack was run at the epsilon of the evaluation."""
    return abs(epsilon_of(attack, data) - parse_number(data["epsilon"])) < 1e-9


def label(attack: dict, data: dict) -> str:
    """The name of an attack, with its epsilon if that is not the evaluation's.

    Example:

    >>> label({"name": "pgd-20", "epsilon": 0.25}, {"epsilon": "0.5"})
    'pgd-20 @ 0.25'
    """
    radius = f" @ {format_number(epsilon_of(attack, data))}"
    if at_headline(attack, data) or attack["name"].endswith(radius):
        return attack["name"]
    return attack["name"] + radius


def threat_line(data: dict) -> str:
    """The threat model in one line.

    Example:

    >>> threat_line({"norm": "linf", "epsilon": "8/255", "examples": 1000})
    'linf, epsilon 8/255 · 1,000 images'
    """
    parts = [f"{data['norm']}, epsilon {data['epsilon']}", plural(data["examples"], "image")]
    if "protocol" in data:
        parts.append(f"protocol {data['protocol']}")
    return " · ".join(parts)
