"""The settings of bin/export."""

import dataclasses

from athe_tf.utils.errors import check
from athe_tf.utils.options import option


@dataclasses.dataclass(frozen=True)
class ExportConfig:
    """An export to a SavedModel."""

    model: str = option("", "A .keras file, or a workdir of bin/train.")
    output: str = option("", "Folder to write; must not exist yet.")

    def __post_init__(self):
        check(bool(self.model), "Say which model to export: --model=FILE.keras or a workdir.")
        check(bool(self.output), "Say where to write: --output=FOLDER.")
