"""The patterns of words by which notes are searched (`data/patterns.tsv`)."""

import re
from functools import cache
from pathlib import Path

from archqa.resources import table_rows

_FILE = Path(__file__).parent / "data" / "patterns.tsv"


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a name, of whole words in any case."""
    rows = {row[0]: row[1] for row in table_rows(_FILE)}
    return re.compile(rf"\b(?:{rows[name]})\b", re.IGNORECASE)
