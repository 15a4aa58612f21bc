"""The public packages: those whose stub lists public names."""

import pathlib

import athe_tf

_ROOT = pathlib.Path(athe_tf.__file__).parent
PACKAGES = sorted(
    ".".join(stub.parent.relative_to(_ROOT.parent).parts) for stub in _ROOT.rglob("__init__.pyi")
)
