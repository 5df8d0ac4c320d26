"""Lists ids in messages: never more than ten, since nobody reads ninety."""

from collections.abc import Iterable

MAX_IDS = 10


def list_ids(ids: Iterable[str]) -> str:
    """The first ten ids, and how many more there are."""
    all_ids = list(ids)
    first_ids = ", ".join(all_ids[:MAX_IDS])
    hidden = len(all_ids) - MAX_IDS
    return f"{first_ids} and {hidden} more" if hidden > 0 else first_ids
