"""Runs the tests in an environment with the lowest version of every package that setup.py allows.

Makes the environment first, unless it is there.

    python -m benchmarks.lowest_versions ENVIRONMENT [ARGUMENTS OF PYTEST]
"""

import pathlib
import subprocess
import sys
import venv

from packaging.requirements import Requirement
from setuptools._distutils.core import run_setup

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tools that check the code and do not run it.
NOT_PINNED = ("ruff", "mypy", "import-linter")


def lowest(requirement: Requirement) -> str:
    """`name==version` for `name>=version`."""
    versions = [bound.version for bound in requirement.specifier if bound.operator == ">="]
    return f"{requirement.name}=={versions[0]}" if versions else requirement.name


def requirements() -> list[str]:
    """The packages of athe_tf and of its tests, each at its lowest version."""
    described = run_setup(str(ROOT / "setup.py"), stop_after="init")
    texts = [*described.install_requires, *described.extras_require["test"]]
    found = [Requirement(text) for text in texts]
    return [one.name if one.name in NOT_PINNED else lowest(one) for one in found]


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else sys.exit(__doc__)
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *requirements()], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "-e", str(ROOT)], check=True)
    subprocess.run([python, "-m", "pip", "list"], check=True)
    sys.exit(subprocess.run([python, "-m", "pytest", *sys.argv[2:]], cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
