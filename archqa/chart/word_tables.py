"""The patterns of words by which notes are searched (`data/`)."""

import re
from functools import cache

from archqa.core.tables import read_mapping


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a name, of whole words in any case."""
    patterns = read_mapping("chart/data/patterns.tsv")
    return re.compile(rf"\b(?:{patterns[name]})\b", re.IGNORECASE)
