"""The word lists of this room: tab-separated files in `data/`, lines that start with # are comments."""

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "data"


@cache
def rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of `data/<name>`, comments and empty lines apart."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split("\t")) for line in lines if line.strip() and not line.startswith("#"))
