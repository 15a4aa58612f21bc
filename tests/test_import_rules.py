"""What `import-linter` cannot see: modules that are imported by their names in texts."""

import ast
import pathlib
import re

from athe_tf.attacks.registry import ATTACKS
from athe_tf.data.corruptions.names import CORRUPTIONS
from athe_tf.data.names import AUGMENTATIONS
from athe_tf.models.names import FAMILIES
from athe_tf.training.options import FRAMEWORKS

ROOT = pathlib.Path(__file__).parents[1]
# The modules that import by name, and what they import: only their own package, what a user names, or public
# names that moved to a package above.
BY_NAME = {
    "athe_tf/programs/start.py": "a program, by the name of its command",
    "athe_tf/report/sections/__init__.py": "the sections of a report",
    "athe_tf/utils/keras_registration.py": "layers, when a .keras file names them",
    "athe_tf/utils/lazy.py": "public names that moved to another package",
    "athe_tf/utils/registry.py": "entries of registries, and `module:Name` of a user",
}


def imports_by_name(path: pathlib.Path) -> bool:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls]
    return bool({"import_module", "__import__"} & set(names))


def test_only_these_modules_import_by_name():
    found = {
        str(path.relative_to(ROOT)) for path in (ROOT / "athe_tf").rglob("*.py") if imports_by_name(path)
    }
    assert found == set(BY_NAME)


def test_registries_name_modules_of_their_own_package():
    for registry in (ATTACKS, AUGMENTATIONS, CORRUPTIONS, FAMILIES, FRAMEWORKS):
        folder = ROOT / registry.package.replace(".", "/")
        modules = {entry.partition(":")[0] for entry in registry.entries.values()}
        assert modules and all((folder / f"{module}.py").is_file() for module in modules), registry


def test_the_order_of_packages_names_every_package():
    contracts = (ROOT / "pyproject.toml").read_text()
    layers = re.findall(r'"(\w+)"', re.search(r"layers = \[(.*?)\]", contracts, re.DOTALL)[1])
    packages = {path.stem for path in (ROOT / "athe_tf").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert packages - {"__init__", "__pycache__", "version", "py"} == set(layers)
