"""The status of an answer as a page says it: a kind for its colour, a sign, and words."""

from typing import NamedTuple

from archqa.asking.answer import Answer, Status
from archqa.core.tables import read_rows

PARTLY_ANSWERED = "partly_answered"


class ShownStatus(NamedTuple):
    """`kind` is the status, or `partly_answered`; `sign` is one character that repeats it."""

    kind: str
    sign: str
    words: str


def shown_status(answer: Answer) -> ShownStatus:
    """Return how the status of an answer about a note or a patient is said."""
    kind = PARTLY_ANSWERED if _leaves_open(answer) else answer.status.value
    rows = {row[0]: row[1:] for row in read_rows("asking/data/shown_statuses.tsv", 4)}
    sign, of_note, of_record = rows[kind]
    return ShownStatus(kind, sign, of_record if answer.patient else of_note)


def _leaves_open(answer: Answer) -> bool:
    """Whether an answer has lines, and remarks by which they do not answer the whole question."""
    beginnings = tuple(row[0] for row in read_rows("asking/data/partial_answers.tsv", 1))
    is_partial = any(remark.startswith(beginnings) for remark in answer.remarks)
    return answer.status is Status.ANSWERED and (is_partial or bool(answer.not_understood))
