"""The tables of questions and their readings."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def questions(name: str) -> tuple[tuple[str, str], ...]:
    """The questions of a table, and the text of their readings."""
    lines = (_FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return tuple((question, reading) for question, reading in rows)
