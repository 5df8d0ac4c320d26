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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartDocument, ChartNotes, Place
from archqa.core.id_lists import list_ids
from archqa.core.tables import read_rows, split_cell
from archqa.fhir import Resource
from archqa.query.conventions import CLINICAL
from archqa.query.everyday import Vocabulary
from archqa.query.everyday.marking import mark
from archqa.query.execution.time_windows import Window, resolve_window
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


class SearchTerm(NamedTuple):
    """One thing that a question names, under each of its names; each name is a list of words."""

    names: tuple[tuple[str, ...], ...]

    def is_in(self, stemmed: frozenset[str]) -> bool:
        """Whether a set of stems has all words of one of the names."""
        for name in self.names:
            words = stems(" ".join(name))
            if words and stemmed.issuperset(words):
                return True
        return False


def search_terms(question: str) -> tuple[SearchTerm, ...]:
    """Return the terms of a question: its words of content, and what the tables know of."""
    terms = [
        SearchTerm(_synonyms_of_words().get(word, ((word,),))) for word in content_words(question)
    ]
    terms += _phrase_terms(question)
    terms += [concept_term(match.concept) for match in find_concepts(question)]
    return tuple(dict.fromkeys(terms))


def _phrase_terms(question: str) -> Iterator[SearchTerm]:
    """Yield the groups of synonyms of which a question has a name of several words."""
    folded = f" {' '.join(_split(question))} "
    for names in _synonym_groups():
        if any(len(name) > 1 and f" {' '.join(name)} " in folded for name in names):
            yield SearchTerm(names)


def concept_term(concept: Concept) -> SearchTerm:
    """Return a concept under all its names, a class of drugs also under those of its members."""
    names = dict.fromkeys(_split(name) for name in _names(concept))
    return SearchTerm(tuple(names)[:_MAX_NAMES])


def content_words(text: str) -> tuple[str, ...]:
    """Return the words of a text that tell one thing from another, each once; also relatives."""
    words = (word.lower() for word in _WORD.findall(text))
    return tuple(dict.fromkeys(word for word in words if _has_content(word)))


def without_carrying_words(question: str) -> str:
    """Return a question without words that carry nothing of their own ("result", "last")."""
    return cue_pattern("chart", "carries nothing").sub(" ", question)


def names_in(question: str, folded_text: str) -> tuple[str, ...]:
    """Return other names of what a question asks about, as far as a text in lower case has them."""
    names: dict[str, None] = {}
    for match in find_concepts(question):
        own = (name.casefold() for name in _names(match.concept))
        there = [name for name in dict.fromkeys(own) if _is_new(name, question, folded_text)]
        names.update(dict.fromkeys(there[:_MAX_OTHER_NAMES]))
    return tuple(names)


def _is_new(name: str, question: str, folded_text: str) -> bool:
    return len(name) > 1 and name not in question.casefold() and f" {name}" in folded_text


def _has_content(word: str) -> bool:
    if word in word_list("stop"):
        return relative_pattern().fullmatch(word) is not None
    return len(word) > 1 or word.isdigit()


def _split(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _names(concept: Concept) -> Iterator[str]:
    """Yield what a concept is called, of a class of drugs also what its members are."""
    yield from (form.removeprefix("=") for form in _forms().get(concept.name, ()))
    if concept.kind in _DRUG_KINDS:
        for ingredient in concept.ingredients:
            name = ingredient.partition("@")[0]
            yield name
            yield from _forms().get(name, ())
    for part in concept.parts:
        yield from _forms().get(part, ())


@cache
def _synonyms_of_words() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return for each single word of the groups all names of its groups, its own at the front."""
    synonyms: dict[str, tuple[tuple[str, ...], ...]] = {}
    for names in _synonym_groups():
        for name in names:
            if len(name) == 1:
                known = synonyms.get(name[0], (name,))
                synonyms[name[0]] = tuple(dict.fromkeys((*known, *names)))
    return synonyms


@cache
def _synonym_groups() -> tuple[tuple[tuple[str, ...], ...], ...]:
    groups = []
    for (names,) in read_rows("terminology/data/search_groups.tsv", 1):
        groups.append(tuple(_split(name) for name in split_cell(names)))
    return tuple(groups)


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    return {concept.name: concept.forms for concept in load_concepts()}


_NAMED = re.compile(
    r"\b(?P<which>last|latest|most recent|first)\s+(?:\w+\s+)?"
    r"(?:(?P<inpatient>admission|hospitali[sz]ation|(?:hospital|inpatient) stay)"
    r"|(?P<emergency>(?:ed|er|emergency(?: room| department)?) visit))\b",
    re.IGNORECASE,
)
_CLASSES = {"inpatient": {"IMP", "ACUTE", "NONAC"}, "emergency": {"EMER"}}


class NamedVisit(NamedTuple):
    """A visit: `Encounter/id`, and the days on which it began and ended, the latter maybe empty."""

    name: str
    start: str
    end: str

    def has_note(self, encounter: str, day: str) -> bool:
        """Whether a note of an encounter (or none) and a day is of this visit."""
        if encounter == self.name:
            return True
        return bool(self.start) and self.start <= day <= (self.end or self.start)

    def __str__(self) -> str:
        if self.end in ("", self.start):
            return f"the visit of {self.start}"
        return f"the visit from {self.start} to {self.end}"


def names_visit(question: str) -> bool:
    """Whether a question names a visit."""
    return _NAMED.search(question) is not None


def named_visit(question: str, encounters: Iterable[Resource], today: date) -> NamedVisit | None:
    """Return the visit that a question names; None if it names none or there is none."""
    match = _NAMED.search(question)
    if match is None:
        return None
    classes = _CLASSES["inpatient" if match["inpatient"] else "emergency"]
    visits = [_visit(one) for one in encounters if _class(one) in classes]
    begun = sorted((one for one in visits if one.start <= today.isoformat()), key=_visit_start)
    if not begun:
        return None
    return begun[0] if match["which"].casefold() == "first" else begun[-1]


def _visit(encounter: Resource) -> NamedVisit:
    period = encounter.get("period")
    times: dict[str, Any] = period if isinstance(period, dict) else {}
    start, end = (str(times.get(name) or "")[:10] for name in ("start", "end"))
    return NamedVisit(f"Encounter/{encounter.get('id', '')}", start, end)


def _class(encounter: Resource) -> str:
    coding = encounter.get("class")
    return str(coding.get("code") or "") if isinstance(coding, dict) else ""


def _visit_start(visit: NamedVisit) -> str:
    return visit.start


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


_K1, _B = 1.2, 0.5
"""BM25's saturation and its correction for length: sentences of notes are short anyway."""
_FUSION = 20.0
"""The constant of reciprocal rank fusion; 60 is usual where lists have thousands of entries."""
_TITLE_WEIGHT = 0.5
"""What a term counts that stands in the title of a note and not in the sentence."""

Scores = NDArray[np.float64]


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
    places = _latest_places(notes, documents)
    if texts is not None:
        kept = set(texts)
        places = {text: place for text, place in places.items() if text in kept}
    by_words = word_scores(notes, search_terms(question), places)
    by_meaning = notes.vectors @ encode([question])[0]
    fused = _fuse([by_words, by_meaning.astype(np.float64)], places)
    order = [index for index in np.argsort(-fused, kind="stable")[:count] if fused[index] > 0]
    return [Hit(int(index), places[int(index)], float(fused[index])) for index in order]


def word_scores(notes: ChartNotes, terms: Sequence[SearchTerm], places: dict[int, Place]) -> Scores:
    """Return BM25 of every text for the terms."""
    scores = np.zeros(len(notes.texts))
    lengths = notes.word_counts
    norm = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1.0))
    titles = [frozenset(stems(f"{one.title} {one.kind} {one.author}")) for one in notes.documents]
    for term in terms:
        texts = texts_with_term(notes, term)
        rarity = log(1 + (len(notes.texts) - len(texts) + 0.5) / (len(texts) + 0.5))
        matched = np.zeros(len(notes.texts))
        matched[list(texts)] = 1.0
        titled = {index for index, title in enumerate(titles) if term.is_in(title)}
        for text, place in places.items():
            if place.document in titled and not matched[text]:
                matched[text] = _TITLE_WEIGHT
        scores += rarity * matched * (_K1 + 1) / (matched + norm)
    return scores


def texts_with_term(notes: ChartNotes, term: SearchTerm) -> set[int]:
    """Return the indices of the texts that have one of a term's names, with all its words."""
    found: set[int] = set()
    for name in term.names:
        of_words = [set(notes.with_word(word)) for word in name]
        found |= set.intersection(*of_words) if of_words else set()
    return found


def _latest_places(notes: ChartNotes, documents: Collection[int] | None) -> dict[int, Place]:
    """Return the latest place of each text in the documents; documents are the latest first."""
    places = {}
    allowed = None if documents is None else set(documents)
    for text, of_text in enumerate(notes.places):
        for place in of_text:
            if allowed is None or place.document in allowed:
                places[text] = place
                break
    return places


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
                fused[index] += 1 / (_FUSION + rank)
    return fused
