"""One statement of one reviewer, the fields it may be about, and the answer the reviewer had seen."""

import re
from datetime import datetime
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.question import Item
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, quoted

LABELS = tuple(label.value for label in Relevance)
"""The labels of a sentence of the note."""

SUPPORT = ("supported", "partly", "not")
"""The values of a line of the answer."""

VERDICTS = ("yes", "partly", "no")
"""The values of an answer, its evidence and its query."""

VERDICT_FIELDS = ("answer_right", "evidence_right", "query_right")
TEXT_FIELDS = ("better_answer", "remark")

_LINE = re.compile(r"line/[1-9][0-9]{0,3}")
_SENTENCE = "sentence/"
_MAX_TEXT = 100_000
_MAX_NAME = 80


class AnswerVersion(NamedTuple):
    """The answer that a reviewer saw: its run, and the version of its record (`record_version`).

    `blind`: neither the run's answer nor a key was shown. `run_version` is then empty.
    """

    run: str = ""
    run_version: str = ""
    blind: bool = False


class ReviewEvent(FrozenModel):
    """One line of a review log. The value "" clears the field.

    All events of one save have the same time `at`. `undoes` is the time of the save that this
    event takes back.
    """

    case_id: str
    field: str
    value: str
    reviewer: str
    at: datetime
    run: str = ""
    run_version: str = ""
    blind: bool = False
    adjudicated: bool = False
    undoes: datetime | None = None

    @property
    def judged_run(self) -> str:
        """The run whose answer was judged; empty for fields of the note or the question."""
        return self.run if is_about_answer(self.field) else ""


def field_sentence_id(field: str) -> str | None:
    """The id of the sentence that a field labels; None for other fields."""
    return field.removeprefix(_SENTENCE) if field.startswith(_SENTENCE) else None


def field_kind(field: str) -> str:
    """`sentence`, `line`, or the name of the field itself."""
    return field.split("/", 1)[0]


def is_about_answer(field: str) -> bool:
    """Whether a field judges the answer of one run, and not the note or the question."""
    return field_kind(field) in ("line", *VERDICT_FIELDS)


def field_values(field: str) -> tuple[str, ...]:
    """The values that a field takes; empty for free text and for unknown fields."""
    if field_sentence_id(field):
        return LABELS
    if _LINE.fullmatch(field):
        return SUPPORT
    return VERDICTS if field in VERDICT_FIELDS else ()


def edit_mistake(item: Item, field: str, value: str) -> str:
    """Why a field of an item's review cannot have a value; empty if it can."""
    sentence_id = field_sentence_id(field)
    if sentence_id is not None:
        sentence_ids = item.sentence_ids if isinstance(item, Case) else ()
        if sentence_id not in sentence_ids:
            return f"The case has no sentence {quoted(sentence_id)}."
    if field in TEXT_FIELDS:
        return "The text is too long." if len(value) > _MAX_TEXT else ""
    values = field_values(field)
    if not values:
        return f"A review has no field {quoted(field)}."
    if value and value not in values:
        return f"{quoted(value)} cannot be said of {quoted(field)}; there are {', '.join(values)}."
    return ""


def clean_value(text: str) -> str:
    """A value as it is stored: forms of browsers send line ends of Windows."""
    return text.replace("\r\n", "\n").strip()


def reviewer_name(text: str) -> str:
    """A reviewer's name with single spaces. Raises `CallerError` for none, or one too long."""
    name = " ".join(text.split())
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        raise CallerError(
            f"A review needs the name of its reviewer, of at most {_MAX_NAME} characters.\n"
            "Say who you are, then save again."
        )
    return name
