"""Public names that load on first use, also those whose home is another package."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import lazy_loader


def attach_stub(
    package: str, file: str, elsewhere: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the imports of its stub.

    Args:
        package: Its `__name__`.
        file: Its `__file__`.
        elsewhere: Further names, and the modules outside of the package that have them. The stub lists them
            as assignments: `lazy_loader` reads only imports from inside the package.
    """
    own, _, names = lazy_loader.attach_stub(package, file)
    names = sorted([*names, *elsewhere])

    def get(name: str) -> Any:
        return getattr(importlib.import_module(elsewhere[name]), name) if name in elsewhere else own(name)

    return get, lambda: list(names), names
