"""Finds sentences in a patient's notes: the terms and limits of a question, and two ranks, fused.

Words: BM25 (Robertson and Zaragoza, 2009) over the sentences of the patient's notes, with the words
of a note's title counted too. Meaning: the cosine of sentence vectors. The two orders are joined by
reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from functools import cache
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartDocument, ChartNotes, Place
from archqa.chart.weights import WEIGHTS
from archqa.core.id_lists import list_ids
from archqa.core.tables import read_rows, split_cell
from archqa.fhir import Resource
from archqa.query.conventions import CLINICAL
from archqa.query.execution.time_windows import Window, resolve_window
from archqa.query.questions.everyday import Vocabulary
from archqa.query.questions.everyday.phrases import mark
from archqa.query.scope import Span
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts, load_concepts
from archqa.terminology.cues import cue_pattern
from archqa.terminology.people import relative_pattern
from archqa.terminology.words import stems, word_list

_WORD = re.compile(r"[^\W_]+")
_DRUG_KINDS = ("drug", "drug_class")
_MAX_NAMES = 60
_MAX_OTHER_NAMES = 4

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

Name = tuple[str, ...]
"""The words of a name, in lower case."""


class SearchTerm(NamedTuple):
    """One thing that a question names, under each of its names."""

    names: tuple[Name, ...]

    def is_in(self, stemmed: frozenset[str]) -> bool:
        """Whether a set of stems has all words of one of the names."""
        for name in self.names:
            words = stems(" ".join(name))
            if words and stemmed.issuperset(words):
                return True
        return False


def search_terms(question: str) -> tuple[SearchTerm, ...]:
    """Return the terms of a question: its words of content, and what the tables know of."""
    terms: dict[SearchTerm, None] = {}
    for word in content_words(question):
        terms[SearchTerm(_synonyms_of_words().get(word, ((word,),)))] = None
    words = f" {' '.join(_split(question))} "
    for names in _synonym_groups():
        if any(len(name) > 1 and f" {' '.join(name)} " in words for name in names):
            terms[SearchTerm(names)] = None
    for match in find_concepts(question):
        terms[concept_term(match.concept)] = None
    return tuple(terms)


def concept_term(concept: Concept) -> SearchTerm:
    """Return a concept under all its names, a class of drugs also under those of its members."""
    names = dict.fromkeys(_split(name) for name in _names(concept))
    return SearchTerm(tuple(names)[:_MAX_NAMES])


def content_words(text: str) -> tuple[str, ...]:
    """Return the words of a text that tell one thing from another, each once; also relatives."""
    words: dict[str, None] = {}
    for word in _split(text):
        if word in word_list("stop"):
            has_content = relative_pattern().fullmatch(word) is not None
        else:
            has_content = len(word) > 1 or word.isdigit()
        if has_content:
            words[word] = None
    return tuple(words)


def without_carrying_words(question: str) -> str:
    """Return a question without words that carry nothing of their own ("result", "last")."""
    return cue_pattern("chart", "carries nothing").sub(" ", question)


def names_in(question: str, folded_text: str) -> tuple[str, ...]:
    """Return other names of what a question asks about, as far as a text in lower case has them."""
    folded_question = question.casefold()
    names: dict[str, None] = {}
    for match in find_concepts(question):
        new: dict[str, None] = {}
        for name in map(str.casefold, _names(match.concept)):
            if (
                len(name) > 1
                and name not in folded_question
                and f" {name}" in folded_text
            ):
                new[name] = None
        names.update(dict.fromkeys(list(new)[:_MAX_OTHER_NAMES]))
    return tuple(names)


def _split(name: str) -> Name:
    return tuple(word.lower() for word in _WORD.findall(name))


def _names(concept: Concept) -> Iterator[str]:
    """Yield what a concept is called, of a class of drugs also what its members are."""
    for form in _forms().get(concept.name, ()):
        yield form.removeprefix("=")
    if concept.kind in _DRUG_KINDS:
        for ingredient in concept.ingredients:
            name = ingredient.partition("@")[0]
            yield name
            yield from _forms().get(name, ())
    for part in concept.parts:
        yield from _forms().get(part, ())


@cache
def _synonyms_of_words() -> dict[str, tuple[Name, ...]]:
    """Return for each single word of the groups all names of its groups, its own at the front."""
    synonyms: dict[str, tuple[Name, ...]] = {}
    for names in _synonym_groups():
        for name in names:
            if len(name) == 1:
                known = synonyms.get(name[0], (name,))
                synonyms[name[0]] = tuple(dict.fromkeys((*known, *names)))
    return synonyms


@cache
def _synonym_groups() -> tuple[tuple[Name, ...], ...]:
    groups = []
    for (names,) in read_rows("terminology/data/search_groups.tsv", 1):
        groups.append(tuple(map(_split, split_cell(names))))
    return tuple(groups)


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    return {concept.name: concept.forms for concept in load_concepts()}


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
    later note may. Notes that are asked for by type or author are the only ones, and those of a
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
        allowed = {index for index in allowed if documents[index].date[:10] >= start}
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
    allowed = None if documents is None else frozenset(documents)
    places: dict[int, Place] = {}
    for text in range(len(notes.texts)) if texts is None else sorted(set(texts)):
        for place in notes.places[text]:  # The latest one is the first.
            if allowed is None or place.document in allowed:
                places[text] = place
                break
    by_words = word_scores(notes, search_terms(question), places)
    by_meaning = notes.vectors @ encode([question])[0]
    fused = _fuse([by_words, by_meaning.astype(np.float64)], places)
    hits = []
    for text in np.argsort(-fused, kind="stable")[:count].tolist():
        if fused[text] > 0:
            hits.append(Hit(text, places[text], float(fused[text])))
    return hits


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


def rarity(texts: int, with_term: int) -> float:
    """Return how much a term counts that so many of the texts have (BM25's idf)."""
    return log(1 + (texts - with_term + 0.5) / (with_term + 0.5))


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
