"""Files that archqa reads: prompts, bundled cases and tables, from a checkout or from the wheel."""

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def prompts_dir() -> Path:
    """The folder `prompts/<agent>/v<N>/`."""
    return _checkout_or_wheel("prompts")


def mini_dataset_dir() -> Path:
    """The folder of the three bundled cases."""
    return _checkout_or_wheel("data/mini")


@cache
def table_rows(path: Path) -> tuple[tuple[str, ...], ...]:
    """The rows of a tab-separated file; empty lines and comments (`#`) are skipped."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(
        tuple(line.split("\t")) for line in lines if line.strip() and not line.startswith("#")
    )


def _checkout_or_wheel(name: str) -> Path:
    bundled = _PACKAGE / "_bundled" / name
    return bundled if bundled.is_dir() else _PACKAGE.parent / name
