"""Whether two identities are of the same job: the only place where that is decided.

An identity is a flat dictionary of JSON values, from the name of everything that a result depends on to its
value or digest. Whoever keeps something on disk keeps its identity beside it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any


def as_json(identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity as it is read back from a file."""
    return json.loads(json.dumps(identity, default=str))


def differences(
    ours: Mapping, stored: Mapping, entry: str = "{name}={ours} (there: {stored})", show: Callable = repr
) -> list[str]:
    """The entries in which two identities differ, as text; empty if they are of the same job.

    Example:

    >>> differences({"seed": 1, "norm": "l2"}, {"seed": 0, "norm": "l2"})
    ['seed=1 (there: 0)']

    Args:
        ours: The identity of this job.
        stored: That of what is on disk.
        entry: How a difference is written, with `name`, `ours` and `stored`.
        show: From a value, or `None` for one that is missing, to text.
    """
    names = [*stored, *(name for name in ours if name not in stored)]
    return [
        entry.format(name=name, ours=show(ours.get(name)), stored=show(stored.get(name)))
        for name in names
        if ours.get(name) != stored.get(name)
    ]
