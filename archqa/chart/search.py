"""Finds sentences in a patient's notes: the terms and limits of a question, and two ranks, fused.

Words: BM25 (Robertson and Zaragoza, 2009) over the sentences of the patient's notes, with the words
of a note's title counted too. Meaning: the cosine of sentence vectors. The two orders are joined by
reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartDocument, ChartNotes, Place
from archqa.chart.search_terms import SearchTerm, rarity, search_terms
from archqa.chart.weights import WEIGHTS
from archqa.core.id_lists import list_ids
from archqa.fhir import Resource
from archqa.query.conventions import CLINICAL
from archqa.query.execution.time_windows import Window, resolve_window
from archqa.query.questions.everyday import Vocabulary
from archqa.query.questions.everyday.phrases import mark
from archqa.query.scope import Span
from archqa.terminology.words import stems

_VISIT = re.compile(
    r"\b(?P<which>last|latest|most recent|first)\s+(?:\w+\s+)?"
    r"(?:(?P<inpatient>admission|hospitali[sz]ation|(?:hospital|inpatient) stay)"
    r"|(?P<emergency>(?:ed|er|emergency(?: room| department)?) visit))\b",
    re.IGNORECASE,
)
_CLASSES = {"inpatient": {"IMP", "ACUTE", "NONAC"}, "emergency": {"EMER"}}

_NOTE_NOUN = re.compile(
    r"\b(?:note|notes|report|summary|letter|consult|consultation|h&p|addendum)\b",
    re.IGNORECASE,
)
_NOUN_AFTER_TITLE = (
    r"(?:\w+ )?(?:note|notes|report|summary|letter|consult|consultation)"
)
_LATEST = re.compile(r"\b(?:last|latest|most recent|newest)\b", re.IGNORECASE)
_NAME = re.compile(r"[A-Z][\w'’-]{3,}")
_PLANNED = re.compile(
    r"\b(?:plan\w*|due|schedul\w*|next|should|intend\w*)\b", re.IGNORECASE
)
_OPEN_END = frozenset({"since", "after"})
_OPEN_START = frozenset({"before", "until"})

Scores = NDArray[np.float64]


class _Visit(NamedTuple):
    """A visit: `Encounter/id`, and the days on which it began and ended, the latter maybe empty."""

    name: str
    start: str
    end: str

    def has_note(self, document: ChartDocument) -> bool:
        """Whether a note is of this visit: by its encounter, or written on one of its days."""
        if document.encounter == self.name:
            return True
        return bool(self.start) and self.start <= document.date[:10] <= (
            self.end or self.start
        )

    def __str__(self) -> str:
        if self.end in ("", self.start):
            return f"the visit of {self.start}"
        return f"the visit from {self.start} to {self.end}"


def _find_visit(
    question: str, encounters: Callable[[], Iterable[Resource]], today: date
) -> _Visit | None:
    """Return the visit that a question names: "the last admission", "her first ED visit"."""
    match = _VISIT.search(question)
    if match is None:
        return None
    classes = _CLASSES["inpatient" if match["inpatient"] else "emergency"]
    visits = []
    for encounter in encounters():
        coding, period = encounter.get("class"), encounter.get("period")
        code = str(coding.get("code") or "") if isinstance(coding, dict) else ""
        times = period if isinstance(period, dict) else {}
        start, end = (
            str(times.get("start") or "")[:10],
            str(times.get("end") or "")[:10],
        )
        if code in classes and start <= today.isoformat():
            visits.append(_Visit(f"Encounter/{encounter.get('id', '')}", start, end))
    if not visits:
        return None
    visits.sort(key=lambda visit: visit.start)
    return visits[0] if match["which"].casefold() == "first" else visits[-1]


class NoteLimits(NamedTuple):
    """Which notes a question is about.

    `documents` are the indices of those that may answer, None for all; `window` is the time that is
    asked about, None for any; `descriptions` are the limits in words.
    """

    documents: frozenset[int] | None = None
    window: Window | None = None
    descriptions: tuple[str, ...] = ()


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
    later note may, and one without a date. Notes that are asked for by type or author are the only ones, and those of a
    visit that is named, if it has any. `encounters` are read where a visit is named.
    """
    spans: list[Span] = []
    for time_mark in mark(question, vocabulary, today).of("span"):
        spans += time_mark.spans
    closed = [span for span in spans if span.relation not in _OPEN_END]
    window = _resolve(closed, today) if closed else None

    documents = notes.documents
    allowed = set(range(len(documents)))
    descriptions: list[str] = []
    start = "" if _PLANNED.search(question) else _start(spans, today)
    newest = documents[0].date[:10] if documents else ""
    if start and start <= newest:
        for index, document in enumerate(documents):
            if document.date and document.date[:10] < start:
                allowed.discard(index)
        descriptions.append(f"notes since {start}")
    named = allowed.intersection(_named(question, documents))
    if named:
        allowed = {min(named)} if _LATEST.search(question) else named
        titles = dict.fromkeys(documents[index].title for index in sorted(allowed))
        descriptions.append(list_ids(titles))
    visit = _find_visit(question, encounters, today)
    if visit is not None:
        notes_of_visit = {
            index for index in allowed if visit.has_note(documents[index])
        }
        if notes_of_visit:
            allowed = notes_of_visit
            descriptions.append(str(visit))
    is_limited = len(allowed) < len(documents)
    return NoteLimits(
        frozenset(allowed) if is_limited else None, window, tuple(descriptions)
    )


def _start(spans: Iterable[Span], today: date) -> str:
    """Return the day on which the time that is asked about begins, with its own part.

    What happened after an event of 2023 may be told in a note of 2023.
    """
    starts = []
    for span in spans:
        if span.relation not in _OPEN_START:
            window = _resolve([span.model_copy(update={"relation": "since"})], today)
            if window is not None:
                starts.append(window.low.date().isoformat())
    return min(starts, default="")


def _resolve(spans: Iterable[Span], today: date) -> Window | None:
    try:
        return resolve_window(spans, datetime.combine(today, time(12)), CLINICAL)
    except (ValueError, OverflowError):
        return None


def _named(question: str, documents: Sequence[ChartDocument]) -> Iterator[int]:
    """Yield the notes whose type or author the question names."""
    names = {word.casefold() for word in _NAME.findall(question)}
    folded = question.casefold()
    speaks_of_note = _NOTE_NOUN.search(question) is not None
    for index, document in enumerate(documents):
        author = map(str.casefold, _NAME.findall(document.author))
        is_titled = speaks_of_note and _is_titled(document.title.casefold(), folded)
        if is_titled or not names.isdisjoint(author):
            yield index


def _is_titled(title: str, question: str) -> bool:
    """Whether a question has the whole title, or its first word before "note" or "report"."""
    if not title:
        return False
    if re.search(rf"\b{re.escape(title)}\b", question):
        return True
    first = re.match(r"[\w-]+", title)
    if first is None:
        return False
    return (
        re.search(rf"\b{re.escape(first[0])} {_NOUN_AFTER_TITLE}\b", question)
        is not None
    )


class Hit(NamedTuple):
    """A text of the notes by its index, where it stands (the latest place), and its score."""

    text: int
    place: Place
    score: float


def search_notes(
    notes: ChartNotes,
    question: str,
    encode: Encode,
    documents: Collection[int] | None = None,
    texts: Collection[int] | None = None,
    count: int = 40,
) -> list[Hit]:
    """Return the sentences that fit a question best, the best first.

    `documents` are the indices of the notes to search, `texts` those of the sentences; None for
    all. A sentence that stands in several notes is found in the latest one.
    """
    if not notes.texts:
        return []
    places = places_to_search(notes, documents, texts)
    by_words = word_scores(notes, search_terms(question), places)
    by_meaning = notes.vectors @ encode([question])[0]
    fused = _fuse([by_words, by_meaning.astype(np.float64)], places)
    hits = []
    for text in np.argsort(-fused, kind="stable")[:count].tolist():
        if fused[text] > 0:
            hits.append(Hit(text, places[text], float(fused[text])))
    return hits


def places_to_search(
    notes: ChartNotes,
    documents: Collection[int] | None = None,
    texts: Collection[int] | None = None,
) -> dict[int, Place]:
    """Return the latest place of each text that is searched; for the arguments see `search_notes`."""
    allowed = None if documents is None else frozenset(documents)
    places: dict[int, Place] = {}
    for text in range(len(notes.texts)) if texts is None else sorted(set(texts)):
        for place in notes.places[text]:  # The latest one is the first.
            if allowed is None or place.document in allowed:
                places[text] = place
                break
    return places


def word_scores(
    notes: ChartNotes, terms: Sequence[SearchTerm], places: dict[int, Place]
) -> Scores:
    """Return BM25 of every text for the terms."""
    saturation, b = WEIGHTS.bm25_saturation, WEIGHTS.bm25_length
    scores = np.zeros(len(notes.texts))
    lengths = notes.word_counts
    norm = saturation * (1 - b + b * lengths / max(lengths.mean(), 1.0))
    titles = []
    for document in notes.documents:
        title = f"{document.title} {document.kind} {document.author}"
        titles.append(frozenset(stems(title)))
    for term in terms:
        texts = texts_with_term(notes, term)
        matched = np.zeros(len(notes.texts))
        matched[list(texts)] = 1.0
        titled = {index for index, title in enumerate(titles) if term.is_in(title)}
        for text, place in places.items():
            if place.document in titled and not matched[text]:
                matched[text] = WEIGHTS.title_term
        weight = rarity(len(notes.texts), len(texts))
        scores += weight * matched * (saturation + 1) / (matched + norm)
    return scores


def texts_with_term(notes: ChartNotes, term: SearchTerm) -> set[int]:
    """Return the indices of the texts that have one of a term's names, with all its words."""
    texts: set[int] = set()
    for name in term.names:
        if name:
            texts |= set.intersection(*(set(notes.with_word(word)) for word in name))
    return texts


def _fuse(all_scores: Sequence[Scores], places: dict[int, Place]) -> Scores:
    """Return the sum of reciprocal ranks; 0 for a text without a place or without a score."""
    fused = np.zeros(len(all_scores[0]))
    allowed = np.zeros(len(fused), dtype=bool)
    allowed[list(places)] = True
    for scores in all_scores:
        order = np.argsort(-np.where(allowed, scores, -np.inf), kind="stable")
        for rank, index in enumerate(order.tolist(), start=1):
            if not allowed[index]:
                break
            if scores[index] > 0:
                fused[index] += 1 / (WEIGHTS.fusion + rank)
    return fused
