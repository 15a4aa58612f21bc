"""How to read the attacks of an evaluation."""

from athe_tf.utils.number_format import format_number, parse_number


def ran(data: dict) -> list[dict]:
    """The attacks that were run."""
    return [attack for attack in data["attacks"] if "accuracy" in attack]


def counts(attack: dict) -> bool:
    """Whether an attack stays within the report's threat model, and so counts in the worst case."""
    return attack.get("in_worst_case", True)


def worst_case(data: dict) -> tuple[float | None, list[float] | None]:
    """The accuracy over all attacks with its interval; `None` where no attack says anything about it."""
    if not any(map(counts, ran(data))):
        return None, None
    return data["worst_case_accuracy"], data.get("worst_case_interval")


def epsilon_of(attack: dict, data: dict) -> float:
    """The radius of an attack, which is the report's unless it says otherwise."""
    return attack.get("epsilon", parse_number(data["epsilon"]))


def at_headline(attack: dict, data: dict) -> bool:
    """Whether an attack was run at the report's epsilon."""
    return abs(epsilon_of(attack, data) - parse_number(data["epsilon"])) < 1e-9


def label(attack: dict, data: dict) -> str:
    """The name of an attack, with its epsilon where that is not the report's.

    Example:

    >>> label({"name": "pgd-20", "epsilon": 0.25}, {"epsilon": "0.5"})
    'pgd-20 @ 0.25'
    """
    radius = f" @ {format_number(epsilon_of(attack, data))}"
    if at_headline(attack, data) or attack["name"].endswith(radius):
        return attack["name"]
    return attack["name"] + radius


def images_of(attack: dict, data: dict) -> int:
    """How many images an attack was tried on: costly ones take the first so many only."""
    return attack.get("examples", data["examples"])
