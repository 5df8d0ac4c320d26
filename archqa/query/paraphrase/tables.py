"""The table of words, `data/harmless_words.tsv`."""

from functools import cache
from pathlib import Path

from archqa.resources import table_rows

_TABLE = Path(__file__).parent / "data" / "harmless_words.tsv"


@cache
def read_words(kind: str) -> frozenset[str]:
    """The words of a kind."""
    rows = table_rows(_TABLE)
    return frozenset(word for row in rows if row[0] == kind for word in row[1].split())
