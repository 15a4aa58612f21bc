"""The `model_info` of RobustBench (github.com/RobustBench/robustbench), as far as an evaluation knows it.

The file belongs in `model_info/<dataset>/<threat>/<ModelID>.json` there. What only the authors know (title,
authors, link, venue) is null and listed under `athe_tf.to_fill_in`; what they filled in is kept when the file
is written again. Everything that RobustBench has no key for is under `athe_tf`.
"""

import re

from athe_tf.report.reading import SavedEvaluation
from athe_tf.results.result import Result

THREATS = {"linf": "Linf", "l2": "L2"}
# RobustBench ranks by the standard version of AutoAttack only.
STANDARD = "autoattack"


def model_info(evaluation: SavedEvaluation) -> dict:
    """The dictionary of the JSON file."""
    result, config = evaluation.result, evaluation.config
    info: dict = {
        "link": None,
        "name": None,
        "authors": None,
        # Unknown for models that were not trained with athe_tf.
        "additional_data": bool(config.get("extra_data")) if config else None,
        "number_forward_passes": 1 if config else None,
        "dataset": re.sub(r" \(\w+\)$", "", result.dataset),
        "venue": None,
        "architecture": config["model"] if config else None,
        "eps": result.epsilon_text,
        "clean_acc": _percent(result.clean_accuracy),
        "reported": _percent(result.worst_case_accuracy),
        "autoattack_acc": autoattack(result),
        "footnote": f"Measured on {result.examples} images of {result.dataset}.",
    }
    measured = result.corruptions
    if measured and not measured.get("generated"):
        means = {"corruptions_acc": measured.get("mca"), "corruptions_mce": measured.get("mce")}
        info |= {name: _percent(mean) for name, mean in means.items() if mean is not None}
    empty = [key for key, value in info.items() if value is None]
    threat = THREATS.get(result.norm, result.norm)
    return {**info, "athe_tf": {"to_fill_in": empty, "threat": threat, **_extras(result)}}


def keep_filled_in(info: dict, before: dict) -> dict:
    """A new `model_info` with the values that the authors filled in `before`, the file that it replaces."""
    facts = before.get("athe_tf")
    asked = facts.get("to_fill_in") if isinstance(facts, dict) else None
    filled_in = {
        key: before[key]
        for key in (asked if isinstance(asked, list) else [])
        if isinstance(key, str) and key in before and info.get(key, 0) is None
    }
    return {**info, **filled_in}


def autoattack(result: Result) -> str | None:
    """The accuracy under the standard AutoAttack at the epsilon of the evaluation, if it was run."""
    for attack in result.ran:
        if attack.name == STANDARD and result.at_headline(attack):
            return _percent(attack.accuracy)
    return None


def _extras(result: Result) -> dict:
    kept = ("model", "examples", "seed", "protocol", "warnings", "versions", "command")
    of_attacks = ("name", "accuracy", "not_run", "epsilon", "settings")
    entries = [attack.to_dict() for attack in result.attacks]
    attacks = [{key: entry[key] for key in of_attacks if key in entry} for entry in entries]
    found = {key: getattr(result, key) for key in kept}
    return {**{key: value for key, value in found.items() if value is not None}, "attacks": attacks}


def _percent(share: float | None) -> str | None:
    """As RobustBench writes it: a percentage with two digits, as text."""
    return None if share is None else f"{100 * share:.2f}"
