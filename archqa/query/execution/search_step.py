"""How many rows a limit left."""

from typing import NamedTuple


class SearchStep(NamedTuple):
    """One limit of a search, in words, and the number of rows that it left."""

    limit: str
    remaining: int
