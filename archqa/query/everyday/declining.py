"""Why judgements are declined: the sentences of `data/reasons.tsv`."""

from archqa.core.tables import read_mapping
from archqa.query.everyday.reading import MOST_QUERIES, Declined
from archqa.query.model import Query


def decline(kind: str, *related: Query) -> Declined:
    """Decline a judgement of this kind, with facts related to it."""
    reasons = read_mapping("query/everyday/data/reasons.tsv")
    return Declined(reasons[kind], related[:MOST_QUERIES])
