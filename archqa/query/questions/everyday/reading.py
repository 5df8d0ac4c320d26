"""What was read from a question: queries, a judgement that is declined, or words not understood."""

from typing import Literal, NamedTuple

from archqa.query.model import Query


class Understood(NamedTuple):
    """One to three queries that hold every word of the question.

    joined: `and`, each answers a part of the question; `or`, the same question is asked of several
    kinds of rows or measurements, and those that have nothing need not be named unless all have.
    assumed: words that were taken for the patient, such as "my mother".
    left_out: sentences that ask nothing and were not taken into account.
    """

    queries: tuple[Query, ...]
    joined: Literal["and", "or"] = "and"
    assumed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Declined(NamedTuple):
    """A judgement or a prediction, which no record holds, and queries for facts related to it.

    `kind` is that of `data/reasons.tsv`, `reason` its sentence.
    """

    kind: str
    reason: str
    related: tuple[Query, ...] = ()


class NotUnderstood(NamedTuple):
    """The words that could be neither taken into a query nor left out."""

    words: tuple[str, ...]
    reason: str


Reading = Understood | Declined | NotUnderstood

MOST_QUERIES = 3
"""More questions at once are not one short question."""
