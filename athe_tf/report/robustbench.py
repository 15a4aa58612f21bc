"""The `model_info` of RobustBench (github.com/RobustBench/robustbench), as far as an evaluation knows it.

The file belongs in `model_info/<dataset>/<threat>/<ModelID>.json` there. What only the authors know (title,
authors, link, venue) is null and listed under `athe_tf.to_fill_in`; what they filled in is kept when the file
is written again. Everything that RobustBench has no key for is under `athe_tf`.
"""

import re

from athe_tf.report.accessors import at_headline, ran, worst_case
from athe_tf.report.reading import SavedEvaluation

THREATS = {"linf": "Linf", "l2": "L2"}
# RobustBench ranks by the standard version of AutoAttack only.
STANDARD = "autoattack"


def model_info(evaluation: SavedEvaluation) -> dict:
    """The dictionary of the JSON file."""
    data, config = evaluation.data, evaluation.config
    info: dict = {
        "link": None,
        "name": None,
        "authors": None,
        # Unknown for models that were not trained with athe_tf.
        "additional_data": bool(config.get("extra_data")) if config else None,
        "number_forward_passes": 1 if config else None,
        "dataset": re.sub(r" \(\w+\)$", "", data["dataset"]),
        "venue": None,
        "architecture": config["model"] if config else None,
        "eps": data["epsilon"],
        "clean_acc": _percent(data["clean_accuracy"]),
        "reported": _percent(worst_case(data)[0]),
        "autoattack_acc": autoattack(data),
        "footnote": f"Measured on {data['examples']} images of {data['dataset']}.",
    }
    corruptions = data.get("corruptions", {})
    for key, name in (("mca", "corruptions_acc"), ("mce", "corruptions_mce")):
        if key in corruptions and not corruptions.get("generated"):
            info[name] = _percent(corruptions[key])
    empty = [key for key, value in info.items() if value is None]
    threat = THREATS.get(data["norm"], data["norm"])
    return {**info, "athe_tf": {"to_fill_in": empty, "threat": threat, **_extras(data)}}


def keep_filled_in(info: dict, before: dict) -> dict:
    """`info` with the values that the authors filled in.

    Args:
        info: A new `model_info`.
        before: The content of the file that it replaces.
    """
    facts = before.get("athe_tf")
    asked = facts.get("to_fill_in") if isinstance(facts, dict) else None
    filled_in = {
        key: before[key]
        for key in (asked if isinstance(asked, list) else [])
        if isinstance(key, str) and key in before and info.get(key, 0) is None
    }
    return {**info, **filled_in}


def autoattack(data: dict) -> str | None:
    """The accuracy under the standard AutoAttack at the epsilon of the evaluation, if it was run."""
    for attack in ran(data):
        if attack["name"] == STANDARD and at_headline(attack, data):
            return _percent(attack["accuracy"])
    return None


def _extras(data: dict) -> dict:
    kept = ("model", "examples", "seed", "protocol", "warnings", "versions", "command")
    of_attacks = ("name", "accuracy", "not_run", "epsilon", "settings")
    attacks = [{key: attack[key] for key in of_attacks if key in attack} for attack in data["attacks"]]
    return {**{key: data[key] for key in kept if key in data}, "attacks": attacks}


def _percent(share: float | None) -> str | None:
    """As RobustBench writes it: a percentage with two digits, as text."""
    return None if share is None else f"{100 * share:.2f}"
