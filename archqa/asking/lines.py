"""From the sentences that answer to the lines that are shown: whole, each with its own citation."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from archqa.asking.answer import AnswerLine, AnswerSpan
from archqa.asking.yes_no import YesNo
from archqa.core.case import Case, Sentence
from archqa.notes.sections import is_heading, section_kind, text_without_list_marker
from archqa.terminology.concepts import find_mentions
from archqa.terminology.words import stems

MIN_WORDS_TO_MARK = 41
"""Words from which on the part of a line that answers is marked."""
MIN_CLAUSE_WORDS = 3
"""Words that a clause needs to stand alone; a shorter one belongs to the one before it."""
MAX_FRAGMENT_WORDS = 12
"""Words of a phrase without a verb that leans on its heading ("Motrin 800 mg t.i.d.")."""

ScoredClause = tuple[int, int, float]
"""Start and exclusive end in the sentence's text, and how well these characters answer."""
ClauseRelevance = Callable[[int], Sequence[ScoredClause]]
"""The scored clauses of the sentence at an index of the case."""

_LEANS_ON_SENTENCE_BEFORE = re.compile(
    r"(?:it|its|this|that|these|those|they|their|them|both|neither|all of (?:these|them)|one of them"
    r"|the (?:latter|former|same|other|others)|such|so|then|thus|therefore|however|afterwards?"
    r"|thereafter|subsequently|since then|at that time|at this time|on neither|in addition|also)\b",
    re.IGNORECASE,
)
_OWN_LABEL = re.compile(r"^\s*(?:[-*•]\s*)?(?:\d+[.)]\s*)?[A-Za-z][^:.!?|]{0,60}:\s*\S")
_LIST_ITEM = re.compile(r"^\s*(?:[-*•·–]\s|\d{1,2}[.)]\s)")
_TABLE_ROW = re.compile(r"\S\s*(?:\||\t| {3,})\s*\S")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|will|would|can|could|may|might|should"
    r"|den(?:y|ies)|shows?|states?|reports?|takes?|continues?|remains?|presents?|appears?|underwent"
    r"|\w{3,}ed)\b",
    re.IGNORECASE,
)
_KINDS_THAT_TELL_OF_WHOM = {"history", "allergies"}
_HEADING_MARKS = re.compile(r"^[\s#*=_-]+|[\s:#*=_-]+$")
_CLAUSE_BREAK = re.compile(r"[;,]\s+|\.\s+(?=[A-Z])|\s+(?=(?:but|however|although|while|which)\b)")


class _Text(NamedTuple):
    """A sentence with single spaces; `offsets` are the places of its characters in the sentence."""

    text: str
    offsets: tuple[int, ...]


def answer_lines(
    case: Case,
    selected: Sequence[int],
    headings: Mapping[int, str],
    opening: YesNo | None = None,
    clause_relevance: ClauseRelevance | None = None,
) -> tuple[AnswerLine, ...]:
    """Return a line for each sentence of `selected` (indices of the case, the best one first).

    Sentences that follow each other and lean on one another stay in the order of the note. The
    heading (`headings`, by index) stands before an item that cannot be understood without it. In a
    long line the clause that scores best is marked, by the words of the question if no
    `clause_relevance` is given.
    """
    lines = []
    for place, index in enumerate(order_for_reading(case, selected)):
        prefix = heading_prefix(case.sentences[index], headings.get(index, ""))
        if opening is not None and place == 0:
            prefix = f"{opening.value}. {prefix}"
        clauses = _scored_clauses(case, index, clause_relevance)
        lines.append(_line(case.sentences[index], prefix, clauses))
    return tuple(lines)


def texts_with_headings(
    case: Case, selected: Sequence[int], headings: Mapping[int, str]
) -> list[str]:
    """Return the sentences of `selected` as `yes_no_answer` reads them.

    A heading that says of whom or of what time the sentence tells ("Family history", "Past medical
    history") or what it lists ("Allergies") stands before it.
    """
    texts = []
    for index in selected:
        sentence, heading = case.sentences[index], headings.get(index, "")
        prefix = heading_prefix(sentence, heading)
        if not prefix and section_kind(heading) in _KINDS_THAT_TELL_OF_WHOM:
            prefix = f"{_HEADING_MARKS.sub('', heading)}: "
        texts.append(prefix + " ".join(sentence.text.split()))
    return texts


def order_for_reading(case: Case, selected: Sequence[int]) -> list[int]:
    """Return the indices, the best one first, but what leans on the sentence before it after that."""
    chosen = set(selected)
    ordered: list[int] = []
    for index in selected:
        first = index
        while _leans_on_before(case, first) and first - 1 in chosen:
            first -= 1
        while first in chosen and first not in ordered:
            ordered.append(first)
            first += 1
            if first >= len(case.sentences) or not _leans_on_before(case, first):
                break
    return ordered


def heading_prefix(sentence: Sentence, heading: str) -> str:
    """Return "Heading: " in the heading's own words, "" where the sentence stands by itself."""
    title = _HEADING_MARKS.sub("", " ".join(heading.split()))
    if not title or not _needs_heading(sentence.text):
        return ""
    title_words = set(stems(title))
    if title_words and title_words <= set(stems(sentence.text)):
        return ""
    return f"{title}: "


def _leans_on_before(case: Case, index: int) -> bool:
    if index == 0 or is_heading(case.sentences[index - 1].text):
        return False
    return _LEANS_ON_SENTENCE_BEFORE.match(case.sentences[index].text.strip()) is not None


def _needs_heading(text: str) -> bool:
    if _OWN_LABEL.match(text) and not _TABLE_ROW.search(text.strip()):
        return False
    if _TABLE_ROW.search(text.strip()):
        return True
    if _VERB.search(text):
        return False
    return bool(_LIST_ITEM.match(text)) or len(text.split()) <= MAX_FRAGMENT_WORDS


def _line(sentence: Sentence, prefix: str, clauses: Sequence[ScoredClause]) -> AnswerLine:
    shown = _with_single_spaces(sentence.text)
    if ":" in prefix:
        shown = _without_list_marker(sentence, shown)
    answering = None
    best = _best_clause(clauses)
    if best is not None and len(shown.text.split()) >= MIN_WORDS_TO_MARK:
        answering = _shown_span(shown, best, len(prefix))
    return AnswerLine(text=prefix + shown.text, citations=(sentence.id,), answering=answering)


def _with_single_spaces(text: str) -> _Text:
    characters: list[str] = []
    offsets: list[int] = []
    for match in re.finditer(r"\S+", text):
        if characters:
            characters.append(" ")
            offsets.append(match.start() - 1)
        characters += match[0]
        offsets += range(match.start(), match.end())
    return _Text("".join(characters), tuple(offsets))


def _without_list_marker(sentence: Sentence, shown: _Text) -> _Text:
    kept = text_without_list_marker(sentence)
    removed = len(shown.text) - len(kept)
    if not kept or not shown.text.endswith(kept):
        return shown
    return _Text(kept, shown.offsets[removed:])


def _shown_span(shown: _Text, clause: ScoredClause, shift: int) -> AnswerSpan | None:
    """Return where a clause of the sentence stands in the line, None for the whole line."""
    start, end, _ = clause
    inside = [
        place
        for place, offset in enumerate(shown.offsets)
        if start <= offset < end and shown.text[place] != " "
    ]
    if not inside or inside[-1] - inside[0] + 1 >= len(shown.text):
        return None
    return AnswerSpan(shift + inside[0], shift + inside[-1] + 1)


def _best_clause(clauses: Sequence[ScoredClause]) -> ScoredClause | None:
    """Return the clause that scores above all others, None without one."""
    ranked = sorted(clauses, key=lambda clause: -clause[2])
    if not ranked or (len(ranked) > 1 and ranked[0][2] <= ranked[1][2]):
        return None
    return ranked[0]


def _scored_clauses(
    case: Case, index: int, relevance: ClauseRelevance | None
) -> Sequence[ScoredClause]:
    text = case.sentences[index].text
    if len(text.split()) < MIN_WORDS_TO_MARK:
        return ()
    if relevance is not None:
        return relevance(index)
    return _clauses_by_shared_words(text, case.clinician_question)


def _clauses_by_shared_words(text: str, question: str) -> list[ScoredClause]:
    """Score each clause by the words and the concepts that it shares with the question."""
    asked = set(stems(question)) | _concept_names(question)
    scored = []
    for start, end in clause_spans(text):
        clause = text[start:end]
        shared = asked & (set(stems(clause)) | _concept_names(clause))
        scored.append((start, end, float(len(shared))))
    return scored if any(score for _, _, score in scored) else []


def clause_spans(text: str) -> list[tuple[int, int]]:
    """Return start and exclusive end of the clauses of a sentence, items of a list included."""
    breaks = [0, *(match.end() for match in _CLAUSE_BREAK.finditer(text)), len(text)]
    spans: list[tuple[int, int]] = []
    start = 0
    for end in breaks[1:]:
        if len(text[start:end].split()) >= MIN_CLAUSE_WORDS or end == len(text):
            spans.append((start, start + len(text[start:end].rstrip())))
            start = end
    return [span for span in spans if span[0] < span[1]]


def _concept_names(text: str) -> set[str]:
    return {f"concept:{mention.concept.name}" for mention in find_mentions(text)}
