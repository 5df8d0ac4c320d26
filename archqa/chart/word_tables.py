"""The patterns of words by which notes are searched (`data/`)."""

import re
from functools import cache
from pathlib import Path

from archqa.resources import table_rows

_DATA_DIR = Path(__file__).parent / "data"


def read_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a table of `data/`."""
    return table_rows(_DATA_DIR / name)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a name, of whole words in any case."""
    rows = {row[0]: row[1] for row in read_rows("patterns.tsv")}
    return re.compile(rf"\b(?:{rows[name]})\b", re.IGNORECASE)
