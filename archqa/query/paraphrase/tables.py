"""The table of words, `data/harmless_words.tsv`."""

from functools import cache

from archqa.core.tables import read_rows


@cache
def read_words(kind: str) -> frozenset[str]:
    """The words of a kind."""
    rows = read_rows("query/paraphrase/data/harmless_words.tsv", 2)
    return frozenset(word for row in rows if row[0] == kind for word in row[1].split())
