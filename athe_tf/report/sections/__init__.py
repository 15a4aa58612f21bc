"""The sections of a report, one per file.

Each file has a function `section(evaluation)` that returns a `Section`, or `None` if the evaluation has no
data for it. A new section is one new file and one line in `ORDER`.
"""

import importlib

from athe_tf.drawing.page import Section
from athe_tf.report.reading import SavedEvaluation

ORDER = (
    "attacks", "conversion", "curve", "sanity", "images", "classes", "angles", "calibration", "corruptions",
    "transfer", "verification", "analyses", "training", "settings",
)  # fmt: skip

__all__ = ["ORDER", "Section", "sections_of"]


def sections_of(evaluation: SavedEvaluation) -> list[Section]:
    """The sections that this evaluation has data for, in order."""
    modules = [importlib.import_module(f"{__name__}.{name}") for name in ORDER]
    found = [module.section(evaluation) for module in modules]
    return [part for part in found if part is not None]
