"""Files that archqa reads: prompts and bundled cases, from a checkout or from the wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def prompts_dir() -> Path:
    """The folder `prompts/<agent>/v<N>/`."""
    return _checkout_or_wheel("prompts")


def mini_dataset_dir() -> Path:
    """The folder of the three bundled cases."""
    return _checkout_or_wheel("data/mini")


def _checkout_or_wheel(name: str) -> Path:
    bundled = _PACKAGE / "_bundled" / name
    return bundled if bundled.is_dir() else _PACKAGE.parent / name
