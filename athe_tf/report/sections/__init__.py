"""The parts of a report, one a file.

Each file has a function `section(evaluation)` that gives a `Section`, or `None` where the evaluation has
nothing for it. A new part is one new file and one line in `ORDER`.
"""

import importlib

from athe_tf.report.reading import Evaluation
from athe_tf.report.sections.section import Section

ORDER = (
    "attacks",
    "curve",
    "sanity",
    "images",
    "classes",
    "angles",
    "calibration",
    "corruptions",
    "transfer",
    "verification",
    "training",
    "settings",
)

__all__ = ["ORDER", "Section", "sections_of"]


def sections_of(evaluation: Evaluation) -> list[Section]:
    """The parts that this evaluation has data for, in order."""
    modules = [importlib.import_module(f"{__name__}.{name}") for name in ORDER]
    found = [module.section(evaluation) for module in modules]
    return [part for part in found if part is not None]
