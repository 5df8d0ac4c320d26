"""The public names of a package that are imported when they are used first."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def imported_on_use(
    package: str, names_by_module: Mapping[str, Collection[str]]
) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; its modules are named relative to the package."""

    def get_name(name: str) -> object:
        for module, names in names_by_module.items():
            if name in names:
                return getattr(import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get_name
