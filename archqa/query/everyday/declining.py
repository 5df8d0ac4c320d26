"""Why judgements are declined: the sentences of `data/reasons.tsv`."""

from functools import cache

from archqa.query.everyday.reading import MOST_QUERIES, Declined
from archqa.query.everyday.tables import read_table
from archqa.query.model import Query


def decline(kind: str, *related: Query) -> Declined:
    """Decline a judgement of this kind, with facts related to it."""
    return Declined(_reasons()[kind], related[:MOST_QUERIES])


@cache
def _reasons() -> dict[str, str]:
    return {kind: reason for kind, reason in read_table("reasons.tsv")}  # noqa: C416
