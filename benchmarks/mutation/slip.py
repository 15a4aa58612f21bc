"""What a slip is, and the lists of all of them."""

import dataclasses
import importlib
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = (
    "utils",
    "losses_layers",
    "threat",
    "models",
    "saving",
    "data",
    "attacks",
    "training",
    "evaluation",
    "analysis",
    "report",
    "distribution",
    "programs",
)


@dataclasses.dataclass(frozen=True)
class Slip:
    """A small mistake that somebody could make.

    Args:
        id: A short name of its own, such as `"A6"`.
        file: Path of the changed file in the repository.
        old: Text that occurs exactly once in the file.
        new: What stands there instead.
        tests: What should notice it: arguments for pytest, from narrow to wide.
        reason: Why no test can notice it, for a slip that changes nothing anybody sees.
    """

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str = ""

    def problem(self, root: pathlib.Path = ROOT) -> str | None:
        """Why the slip cannot be made in the code below `root`, or `None`."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        count = path.read_text().count(self.old)
        if count != 1:
            return f"{self.old!r} occurs {count} times in {self.file}"
        missing = [test for test in self.tests if not _exists(root, test)]
        if missing or not self.tests:
            return f"no such tests: {missing}"
        return "`old` and `new` are equal" if self.old == self.new else None


def _exists(root: pathlib.Path, test: str) -> bool:
    path, _, name = test.partition("::")
    function = f"def {name.partition('[')[0]}(" if name else ""
    return (root / path).is_dir() or ((root / path).is_file() and function in (root / path).read_text())


def slips_of(package: str) -> tuple[Slip, ...]:
    """The slips in a package's list."""
    return importlib.import_module(f"benchmarks.mutation.{package}").SLIPS
