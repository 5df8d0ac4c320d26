"""What a question says of the notes that it is about: their time, their type, who wrote them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from typing import NamedTuple

from archqa.chart.chart_notes import ChartDocument, ChartNotes
from archqa.chart.named_visit import NamedVisit, named_visit, names_visit
from archqa.core.id_lists import list_ids
from archqa.fhir import Resource
from archqa.query.conventions import CLINICAL
from archqa.query.execution.time_windows import Window, resolve_window
from archqa.query.questions.everyday import Vocabulary
from archqa.query.questions.everyday.phrases import mark
from archqa.query.scope import Span

_NOTE_NOUN = re.compile(
    r"\b(?:note|notes|report|summary|letter|consult|consultation|h&p|addendum)\b", re.IGNORECASE
)
_LATEST = re.compile(r"\b(?:last|latest|most recent|newest)\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Z][\w'’-]{3,}")
_PLANNED = re.compile(r"\b(?:plan\w*|due|schedul\w*|next|should|intend\w*)\b", re.IGNORECASE)
_OPEN_END = frozenset({"since", "after"})
_OPEN_START = frozenset({"before", "until"})


class NoteLimits(NamedTuple):
    """Which notes a question is about.

    `documents` are the indices of those that may answer, None for all; `window` is the time that is
    asked about, None for any; `said` tells the limits in words.
    """

    documents: frozenset[int] | None = None
    window: Window | None = None
    said: tuple[str, ...] = ()


NO_LIMITS = NoteLimits()


def note_limits(
    question: str,
    notes: ChartNotes,
    vocabulary: Vocabulary,
    today: date,
    encounters: Callable[[], Iterable[Resource]] = tuple,
) -> NoteLimits:
    """Return the limits that a question states.

    Notes from before the time that is asked about cannot tell of it, unless a plan is asked for; a
    later note may. Notes that are asked for by type or author are the only ones, and those of a
    visit that is named, if it has any. `encounters` are read where a visit is named.
    """
    spans = _spans(question, vocabulary, today)
    window = _window(spans, today)
    allowed = set(range(len(notes.documents)))
    said: list[str] = []
    start = "" if _PLANNED.search(question) else _start(spans, today)
    newest = notes.documents[0].date[:10] if notes.documents else ""
    if start and start <= newest:
        allowed = {index for index in allowed if notes.documents[index].date[:10] >= start}
        said.append(f"notes since {start}")
    named = set(_named(question, notes.documents)) & allowed
    if named:
        allowed = {min(named)} if _LATEST.search(question) else named
        titles = dict.fromkeys(notes.documents[index].title for index in sorted(allowed))
        said.append(list_ids(titles))
    visit = named_visit(question, encounters(), today) if names_visit(question) else None
    of_visit = {i for i in allowed if visit and _is_of_visit(notes.documents[i], visit)}
    if of_visit:
        allowed = of_visit
        said.append(str(visit))
    is_limited = len(allowed) < len(notes.documents)
    return NoteLimits(frozenset(allowed) if is_limited else None, window, tuple(said))


def _is_of_visit(document: ChartDocument, visit: NamedVisit) -> bool:
    return visit.has_note(document.encounter, document.date[:10])


def _spans(question: str, vocabulary: Vocabulary, today: date) -> list[Span]:
    marks = mark(question, vocabulary, today).of("span")
    return [span for each in marks for span in each.spans]


def _window(spans: Sequence[Span], today: date) -> Window | None:
    closed = [span for span in spans if span.relation not in _OPEN_END]
    return _resolved(closed, today) if closed else None


def _start(spans: Iterable[Span], today: date) -> str:
    """Return the day on which the time that is asked about begins, with its own part.

    What happened after an event of 2023 may be told in a note of 2023.
    """
    windows = []
    for span in spans:
        if span.relation not in _OPEN_START:
            windows.append(_resolved([span.model_copy(update={"relation": "since"})], today))
    starts = [window.low.date().isoformat() for window in windows if window is not None]
    return min(starts, default="")


def _resolved(spans: Iterable[Span], today: date) -> Window | None:
    try:
        return resolve_window(spans, datetime.combine(today, time(12)), CLINICAL)
    except (ValueError, OverflowError):
        return None


def _named(question: str, documents: Sequence[ChartDocument]) -> Iterator[int]:
    """Yield the notes whose type or author the question names."""
    names = {word.casefold() for word in _NAME.findall(question)}
    folded = question.casefold()
    is_of_note = _NOTE_NOUN.search(question) is not None
    for index, document in enumerate(documents):
        is_author = names & {word.casefold() for word in _NAME.findall(document.author)}
        is_titled = is_of_note and _is_titled(document.title.casefold(), folded)
        if is_author or is_titled:
            yield index


def _is_titled(title: str, question: str) -> bool:
    """Whether a question has the whole title, or its first word before "note" or "report"."""
    if not title:
        return False
    if re.search(rf"\b{re.escape(title)}\b", question):
        return True
    first = re.match(r"[\w-]+", title)
    nouns = r"(?:\w+ )?(?:note|notes|report|summary|letter|consult|consultation)"
    return first is not None and bool(re.search(rf"\b{re.escape(first[0])} {nouns}\b", question))
