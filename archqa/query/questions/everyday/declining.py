"""Why questions are declined: the rows of `data/reasons.tsv`."""

from functools import cache
from typing import Literal, NamedTuple, cast

from archqa.core.tables import read_rows
from archqa.query.model import Query
from archqa.query.questions.everyday.reading import MOST_QUERIES, Declined

Ground = Literal["judgement", "notes", "language"]


class Reason(NamedTuple):
    """Why questions of a kind are declined, in a sentence.

    `ground` is `judgement` where no record holds it, `notes` where a note may say what resources do
    not, and `language` where only the grammar's queries cannot express it.
    """

    ground: Ground
    sentence: str


@cache
def decline_reasons() -> dict[str, Reason]:
    """Return the reasons by kind."""
    rows = read_rows("query/questions/everyday/data/reasons.tsv", 3)
    return {kind: Reason(cast("Ground", ground), sentence) for kind, ground, sentence in rows}


@cache
def judgement_reasons() -> dict[str, str]:
    """Return why each kind of judgement is declined that a planner may decline.

    What only the grammar cannot express is none: a planner hands such a question over instead.
    """
    return {
        kind: reason.sentence
        for kind, reason in decline_reasons().items()
        if reason.ground != "language"
    }


def decline(kind: str, *related: Query) -> Declined:
    """Decline a question of this kind, with facts related to it."""
    return Declined(kind, decline_reasons()[kind].sentence, related[:MOST_QUERIES])
