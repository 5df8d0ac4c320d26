"""The last question with another time, another subject, or another word of asking."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from archqa.asking.thread.follow_up_words import (
    FollowUpWords,
    Phrase,
    edge_words,
    longest_at,
    references,
)
from archqa.asking.thread.subjects import AskedBefore, Subject, subjects_of
from archqa.query.questions.everyday.clause import Mark
from archqa.query.questions.lexer import Token, tokenize
from archqa.query.scope import Span
from archqa.terminology.words import word_list

_BEFORE_NAME = re.compile(r"\b(?:an?|the|his|her|my|their) $", re.IGNORECASE)
_INDEFINITE = re.compile(r"\ban? $", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_YEAR_ALONE = re.compile(r"\d{4}")

_PAST = word_list("past verb")
_PRESENT = word_list("present verb")
_PAST_OF = {"is": "was", "are": "were", "am": "was", "does": "did", "do": "did"}
_UNTIL_NOW = word_list("until now")
_WH_FIELDS = frozenset({"reason", "time", "place"})
_WH_WORDS = frozenset({"how_long", "how_often", "how_much", "how_high"})
_VERBS = frozenset({"verb", "class", "state", "concept"})
_ASKING = {
    "when": "When",
    "why": "Why",
    "where": "Where",
    "how_long": "How long",
    "count": "How many times",
    "frequency": "How many times",
}
"""What may be asked of a yes/no question by setting these words before it."""

_NAMING = frozenset({"concept", "name", "unknown", "germ"})
_OWN = _NAMING | {"specimen", "class", "row", "person"}
_BESIDE_NAMES = frozenset({"article", "pronoun"})
_ARTICLES = word_list("article or possessive")
_PERSONAL = word_list("personal pronoun")
_PREPOSITIONS = word_list("before drug")
_LONGEST_FRAGMENT = 5

_POINTS = frozenset({"measurement", "procedure", "vaccine"})
"""Kinds of which a record has one after another, each with a date."""


class _Stretch(NamedTuple):
    """A stretch of characters and what takes its place."""

    start: int
    end: int
    text: str = ""


class TimeLimit(NamedTuple):
    """Before or after a date: a year, a month or a day."""

    relation: str
    date: str

    @property
    def words(self) -> str:
        """The limit as a question has it."""
        return f"{self.relation} {self.date}"

    def holds(self, when: str) -> bool:
        """Whether a date (or time) of the record lies within the limit."""
        shown = when[: len(self.date)]
        return shown < self.date if self.relation == "before" else shown > self.date


def at_time(asked: AskedBefore, period: str, last_of: Subject | None = None) -> str:
    """Return the question about another time, such as "in 2020" or "before 2024-08-29".

    Of a subject `last_of`, its last value is asked for.
    """
    stretches = [_stretch(asked, mark) for mark in asked.clause.of("span")]
    for mark in asked.clause.of("state", "current"):
        # "Currently" and "now" contradict another time.
        if not set(mark.text.split()) & {"active", "open", "still"}:
            stretches.append(_stretch(asked, mark))
    if period.split()[0] not in _UNTIL_NOW:
        # The verb that stands in the present: "Is she on it" was it, in 2020.
        for token in asked.clause.tokens:
            typed = asked.text[token.start : token.end]
            past = _PAST_OF.get(token.text)
            if past and typed.lower() == token.text:
                past = past.capitalize() if typed[0].isupper() else past
                stretches.append(_Stretch(token.start, token.end, past))
                break
    if last_of is not None:
        stretches.append(_Stretch(last_of.start, last_of.start, "last "))
    body = _change(asked, stretches).rstrip(" ?.!,")
    return _tidy(f"{body} {period}?")


def asked_in_period(asked: AskedBefore, period: str) -> str:
    """Return the last question about a stretch of time."""
    typed = period.strip()
    return at_time(asked, f"in {typed}" if _YEAR_ALONE.fullmatch(typed) else typed)


def limit_of_answer(asked: AskedBefore, relation: str, today: date) -> TimeLimit | None:
    """Return the time before or after the dates of the last answer; None without a date."""
    limit = _date_of(asked, relation, today)
    return None if limit is None else TimeLimit(relation, limit)


def asked_before_or_after(asked: AskedBefore, limit: TimeLimit, which: str) -> str:
    """Return the last question before or after a date.

    Where one value is asked for without saying which, its last one is meant.
    """
    last_of = None
    is_single = which == "one" or len(asked.turn.lines) == 1
    if limit.relation == "before" and is_single and len(asked.subjects) == 1:
        (subject,) = asked.subjects
        is_open = asked.words[:1] in {("what",), ("when",)}
        has_position = any(map(asked.clause.has, ("position", "extreme", "summary")))
        if is_open and not has_position and subject.kinds & _POINTS:
            last_of = subject
    return at_time(asked, limit.words, last_of)


def relation_in(words: FollowUpWords) -> str | None:
    """Return "before" or "after" of a question that has "before that", "since then" or the like."""
    for _, phrase in _times(tokenize(words.text)):
        return phrase.value
    return None


def with_dates(words: FollowUpWords, asked: AskedBefore, today: date) -> str | None:
    """Return a question with a date in place of "that" in "before that"; None if there is none."""
    tokens = tokenize(words.text)
    for place, phrase in _times(tokens):
        limit = limit_of_answer(asked, phrase.value, today)
        if limit is not None:
            start, end = tokens[place].start, tokens[place + len(phrase.words) - 1].end
            return f"{words.text[:start]}{limit.words}{words.text[end:]}"
    return None


def _times(tokens: Sequence[Token]) -> Iterator[tuple[int, Phrase]]:
    """Yield "before that" and the like, with the place of its first token."""
    texts = [token.text for token in tokens]
    for place in range(len(texts)):
        phrase = longest_at(references(), texts, place)
        if phrase is not None and phrase.kind == "time":
            yield place, phrase


def _date_of(asked: AskedBefore, relation: str, today: date) -> str | None:
    """Return the date before, or after, which further answers lie."""
    cited: set[str] = set()
    for line in asked.turn.lines:
        cited.update(line.citations)
    dates = set()
    for piece in asked.turn.evidence:
        match = _DATE.match(piece.date)
        if piece.id in cited and match:
            dates.add(match[0])
    if dates:
        return min(dates) if relation == "before" else max(dates)
    for mark in asked.clause.of("span"):
        if mark.spans:
            return _bound(mark.spans[0], today)
    return None


def _bound(span: Span, today: date) -> str | None:
    """Return the year, month or day of a span, as the question had it."""
    fields = span.model_dump(exclude_none=True)
    year = fields.get("year")
    if year is None and "years_back" in fields:
        year = today.year - fields["years_back"]
    if year is None:
        return None
    parts = [f"{year:04d}"]
    for name in ("month", "day"):
        if name not in fields:
            break
        parts.append(f"{fields[name]:02d}")
    return "-".join(parts)


def of_subject(asked: AskedBefore, name: str, *, with_article: bool) -> str:
    """Return the question about another subject; an own article takes the place of the former."""
    first, last = asked.subjects[0], asked.subjects[-1]
    former = _BEFORE_NAME if with_article else _INDEFINITE
    before = former.search(asked.text[: first.start])
    start = before.start() if before else first.start
    if (
        with_article and not before
    ):  # "Last A1c" has no place for "her" of "her glucose".
        name = name.partition(" ")[2] or name
    return _tidy(asked.text[:start] + name + asked.text[last.end :])


def asked_why_or_when(asked: AskedBefore, attribute: str) -> str | None:
    """Return a question as "Why …" or "When …", if it is one of yes or no, or begins with "when".

    "When was he given it?" becomes "Why was he given it?". None where that would be no good
    English, as "When is he on metformin?", and for another question.
    """
    opening = _ASKING.get(attribute)
    if opening is None or not asked.words:
        return None
    if attribute == "frequency" and any(
        "drug" in subject.kinds for subject in asked.subjects
    ):
        return None
    tokens = asked.clause.tokens
    first_word = tokens[0].text
    if first_word in _PAST or (first_word in _PRESENT and not asked.subjects):
        without_ever = _change(
            asked, [_stretch(asked, mark) for mark in asked.clause.of("ever", "ever")]
        )
        return _tidy(f"{opening} {without_ever[:1].lower()}{without_ever[1:]}")
    first, *following = asked.clause.marks
    is_wh_field = first.kind == "field" and first.value in _WH_FIELDS
    is_wh_word = first.kind == "wh" and first.value in _WH_WORDS
    auxiliary = tokens[first.end].text if first.end < len(tokens) else ""
    if not (is_wh_field or is_wh_word) or auxiliary not in _PAST | _PRESENT:
        return None
    for mark in following:
        start = tokens[mark.start].start
        is_subject = any(
            subject.start <= start < subject.end for subject in asked.subjects
        )
        if mark.kind in _VERBS and not is_subject:
            return _tidy(opening + asked.text[tokens[first.end - 1].end :])
    return None


def with_part_of(words: FollowUpWords, part: Phrase, place: int, name: str) -> str:
    """Return a follow-up with the name of the thing that a part is of: "the dose of metformin"."""
    end = words.clause.tokens[place + len(part.words) - 1].end
    lead = words.words[0].start
    return _sentence(f"{words.text[lead:end]} of {name}{words.text[end:]}")


def with_name(words: FollowUpWords, name: str) -> str:
    """Return a follow-up with a name in place of its first reference."""
    reference = words.references[0]
    start = reference.start - words.words[0].start
    end = reference.end - words.words[0].start
    return _sentence(words.core[:start] + name + words.core[end:])


def _stretch(asked: AskedBefore, mark: Mark) -> _Stretch:
    tokens = asked.clause.tokens
    return _Stretch(tokens[mark.start].start, tokens[mark.end - 1].end)


def _change(asked: AskedBefore, stretches: Iterable[_Stretch]) -> str:
    text = asked.text
    for stretch in sorted(stretches, reverse=True):
        text = text[: stretch.start] + stretch.text + text[stretch.end :]
    return text


def _sentence(text: str) -> str:
    text = _tidy(text)
    text = text[:1].upper() + text[1:]
    return text if text[-1:] in {"?", ".", "!"} else f"{text}?"


def _tidy(text: str) -> str:
    return re.sub(r" ([?.!,])", r"\1", " ".join(text.split()))


class NamedSubject(NamedTuple):
    """A name that takes the place of the last subject, and a stretch of time, if it has one."""

    text: str
    has_article: bool
    period: str


def has_own_subject(words: FollowUpWords) -> bool:
    """Whether a question names a thing of its own."""
    return any(
        mark.kind in _OWN and not _names_nothing(mark) for mark in words.clause.marks
    )


def says_nothing(words: FollowUpWords) -> bool:
    """Whether a question has words such as "happened", which name nothing by themselves."""
    return any(map(_names_nothing, words.clause.marks))


def _names_nothing(mark: Mark) -> bool:
    empty: set[str] = set()
    for phrase in edge_words("empty"):
        empty.update(phrase.words)
    return mark.kind == "unknown" and empty.issuperset(mark.text.split())


def is_fragment(words: FollowUpWords) -> bool:
    """Whether a question is too short to say of what it asks."""
    has_person = bool(_PERSONAL & set(words.all_words))
    return len(words.words) <= _LONGEST_FRAGMENT and not has_person


def names_subject_before_reference(words: FollowUpWords) -> bool:
    """Whether "it" may mean what the question itself has named before."""
    first = words.references[0].start
    return any(
        subject.start < first for subject in subjects_of(words.text, words.clause)
    )


def named_subject(words: FollowUpWords, asked: AskedBefore) -> NamedSubject | None:
    """Return the name that a follow-up consists of, if the last question can be asked of it."""
    marks = _core_marks(words)
    names = [mark for mark in marks if mark.kind in _NAMING]
    if not names or not asked.subjects or not _is_one_place(asked):
        return None
    if words.periods and not words.has_lead:  # A whole question in shorthand.
        return None
    tokens = words.clause.tokens
    preposition = tokens[marks[0].start].text
    has_preposition = preposition in _PREPOSITIONS and marks[0].kind in {
        "filler",
        "link",
    }
    if has_preposition:
        before = asked.text[: asked.subjects[0].start].lower().split()
        if before and before[-1] in _ARTICLES:
            before.pop()
        if before[-1:] != [preposition]:
            return None
        marks = marks[1:]
    elif not _may_replace(words, names, asked):
        return None
    if not all(map(_belongs_to_name, marks)):
        return None
    named = [mark for mark in marks if mark.kind != "span"]
    start, end = tokens[named[0].start].start, tokens[named[-1].end - 1].end
    text = words.text[start:end]
    if text.lower() in {subject.name.lower() for subject in asked.subjects}:
        return None
    has_article = tokens[named[0].start].text in _ARTICLES
    return NamedSubject(text, has_article, next(iter(words.periods), ""))


def _core_marks(words: FollowUpWords) -> list[Mark]:
    """Return the marks between the words at the edges, without signs."""
    if not words.words:
        return []
    tokens, start, end = words.clause.tokens, words.words[0].start, words.words[-1].end
    marks = []
    for mark in words.clause.marks:
        is_within = (
            tokens[mark.start].start >= start and tokens[mark.end - 1].end <= end
        )
        if mark.kind != "sign" and is_within:
            marks.append(mark)
    return marks


def _belongs_to_name(mark: Mark) -> bool:
    if mark.kind == "filler":
        return mark.value in _BESIDE_NAMES and mark.text not in _PERSONAL
    if mark.kind in _NAMING:
        return not _PERSONAL & set(mark.text.split())
    return mark.kind == "span" or (mark.kind == "noun" and mark.value == "measure")


def _is_one_place(asked: AskedBefore) -> bool:
    """Whether the subjects are one, or a list joined by "or" and "and"."""
    for former, following in zip(asked.subjects, asked.subjects[1:], strict=False):
        between = asked.text[former.end : following.start].replace(",", " ").split()
        if not set(between) <= {"or", "and"} | _ARTICLES:
            return False
    return True


def _may_replace(words: FollowUpWords, names: list[Mark], asked: AskedBefore) -> bool:
    """Whether the last question can be asked of the names: they are of its subject's kind."""
    start = words.clause.tokens[names[0].start].start
    new_kinds: set[str] = set()
    for subject in subjects_of(words.text, words.clause):
        if subject.start >= start:
            new_kinds |= subject.kinds
    new_kinds = new_kinds or {"other"}
    kinds = asked.subjects[0].kinds
    has_verb = any(mark.value == "auxiliary" for mark in asked.clause.marks)
    if not words.has_lead and "measurement" in new_kinds and not has_verb:
        return False  # After "last A1c?", "LDL?" is a whole question too.
    if new_kinds & kinds or "allergy" in kinds:
        return True
    return words.has_lead and ("other" in new_kinds or "other" in kinds)
