"""Where prompts and bundled data are: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def prompts() -> Path:
    """The folder `prompts/<agent>/v<N>/`."""
    return _either("prompts")


def mini() -> Path:
    """The folder of the three bundled cases."""
    return _either("data/mini")


def _either(name: str) -> Path:
    bundled = _PACKAGE / "_bundled" / name
    return bundled if bundled.is_dir() else _PACKAGE.parent / name
