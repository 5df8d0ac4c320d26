"""The status of an answer as a page says it: a kind for its colour, a sign, and words."""

from typing import NamedTuple

from archqa.asking.answer import Answer, Status

PARTLY_ANSWERED = "partly_answered"

_JUDGEMENT = "Declined: a judgement or a prediction is not made"
_SHOWN = {
    "answered": ("✓", "Answered", "Answered"),
    PARTLY_ANSWERED: ("≈", "Partly answered", "Partly answered"),
    "not_found": ("○", "Not in this note", "Not in this record"),
    "not_understood": ("?", "Not understood", "Not understood"),
    "declined": ("✕", _JUDGEMENT, _JUDGEMENT),
}
"""The sign of each status, and its words about a note and about a record."""

_PARTIAL = ("Not answered", "Not stated", "Not taken into account", "A line was left out")
"""Beginnings of remarks that say what of a question an answer leaves open."""


class ShownStatus(NamedTuple):
    """`kind` is the status, or `partly_answered`; `sign` is one character that repeats it."""

    kind: str
    sign: str
    words: str


def shown_status(answer: Answer) -> ShownStatus:
    """Return how the status of an answer about a note or a patient is said."""
    kind = PARTLY_ANSWERED if _leaves_open(answer) else answer.status.value
    sign, of_note, of_record = _SHOWN[kind]
    return ShownStatus(kind, sign, of_record if answer.patient else of_note)


def _leaves_open(answer: Answer) -> bool:
    """Whether an answer has lines, and remarks by which they do not answer the whole question."""
    is_partial = any(remark.startswith(_PARTIAL) for remark in answer.remarks)
    return answer.status is Status.ANSWERED and (is_partial or bool(answer.not_understood))
