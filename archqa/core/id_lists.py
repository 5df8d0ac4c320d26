"""Lists ids in messages: never more than ten, since nobody reads ninety."""

from collections.abc import Sequence

MAX_IDS = 10


def list_ids(ids: Sequence[str]) -> str:
    """The first ten ids, and how many more there are."""
    shown = ", ".join(ids[:MAX_IDS])
    hidden = len(ids) - MAX_IDS
    return f"{shown} and {hidden} more" if hidden > 0 else shown
