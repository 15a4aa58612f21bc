"""Training runs that differ only in the number of attack steps, for `bin/analyze --what=training_steps`."""

import json

from athe_tf.programs.workdir import run_of
from athe_tf.utils.errors import InputError, check

# Settings that may differ inside a line of the picture: the steps, and where a run is.
FREE = {"steps", "workdir", "format", "versions"}
# Settings that may also differ between the two lines of the picture: plain and hypersphere embedding.
HEADS = {"head", "scale", "margin", "weight_norm"}


def runs_by_steps(folders) -> dict[str, dict[int, str]]:
    """From the head to the number of steps in training to the run.

    Raises `InputError` if runs differ in more than the steps and the head, or if two have the same of both.
    """
    configs = {folder: _config(folder) for folder in folders}
    first = next(iter(configs))
    groups: dict[str, dict[int, str]] = {}
    for folder, config in configs.items():
        _check_alike(first, configs[first], folder, config, FREE | HEADS)
        group = groups.setdefault(str(config["head"]), {})
        if group:
            other = next(iter(group.values()))
            _check_alike(other, configs[other], folder, config, FREE)
        steps = config.get("steps")
        check(
            isinstance(steps, int) and steps not in group,
            f"Each run of a head needs a number of attack steps of its own. Received: steps={steps} in "
            f"'{folder}'. Leave it out.",
        )
        group[int(str(steps))] = folder
    for head, group in groups.items():
        check(
            len(group) >= 2,
            f"Expected runs of at least two numbers of steps for each head. Received one with head '{head}'.",
        )
    return groups


def _config(folder: str) -> dict:
    run = run_of(folder)
    if run is None:
        raise InputError(
            f"training_steps compares training runs. Received: '{folder}', which has no config.json. Give "
            "the folders of runs of bin/train."
        )
    try:
        return dict(json.loads(run.config.read_text()))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"'{run.config}' cannot be read: {error}. Give the folder of another run."
        ) from error


def _check_alike(first: str, a: dict, other: str, b: dict, free: set[str]) -> None:
    names = (a.keys() | b.keys()) - free
    differing = sorted(name for name in names if a.get(name) != b.get(name))
    check(
        not differing,
        "The runs differ in more than the number of attack steps, so their accuracies do not show what steps "
        f"are worth. '{first}' and '{other}' differ in: {', '.join(differing)}. Leave one out.",
    )
