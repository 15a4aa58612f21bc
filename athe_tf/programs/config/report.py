"""The settings of bin/report."""

import dataclasses

from athe_tf.utils.errors import check
from athe_tf.utils.options import option


@dataclasses.dataclass(frozen=True)
class ReportConfig:
    """A report of one evaluation, or of several side by side."""

    folders: tuple[str, ...] = option(
        (), "Folders of bin/evaluate, or training runs with one evaluation inside.", positional=True
    )
    output: str | None = option(None, "Page to write when several are compared. [comparison.html]")

    merge: bool = option(
        False,
        "Make one evaluation of all shards in a folder, the --output of bin/evaluate --shard. Opens the "
        "model and the images, and runs the sanity checks.",
    )
    analysis: str | None = option(
        None,
        "Folder of bin/analyze whose pictures the report shows. [analysis, in the evaluation or beside it]",
    )

    def __post_init__(self):
        check(
            len(self.folders) > 0,
            "Say which evaluations to report on, as bin/report runs/a/evaluation runs/b.",
        )
        twice = {folder for folder in self.folders if self.folders.count(folder) > 1}
        check(not twice, f"Name each evaluation once. Received twice: {', '.join(sorted(twice))}.")
        check(
            not self.merge or len(self.folders) == 1,
            "--merge takes one folder, which contains all shards of an evaluation. Received: "
            f"{' '.join(self.folders)}. Copy the shards into one folder.",
        )
        check(
            self.output is None or len(self.folders) > 1,
            "--output is for comparisons; a single report is written next to its evaluation. "
            f"Received: --output={self.output} and one folder.",
        )
        check(
            self.analysis is None or len(self.folders) == 1,
            "--analysis is for the report of one evaluation; comparisons do not show pictures of analyses. "
            f"Received: --analysis={self.analysis} and {len(self.folders)} folders.",
        )
