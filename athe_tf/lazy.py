"""Public names of a package that load on first use, so that importing it is instant."""

import importlib
from collections.abc import Callable, Mapping


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable:
    """The `__getattr__` of a package.

    Example, in a package's `__init__.py`:

        __getattr__ = lazy_names(__name__, {"Report": "report"})

    Args:
        package: `__name__`.
        modules: From a public name to the module of the package that holds it.
    """

    def getattribute(name: str):
        if name in modules:
            return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(
            f"module '{package}' has no attribute '{name}'. Available: {', '.join(sorted(modules))}."
        )

    return getattribute
