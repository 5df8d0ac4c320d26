"""The last question with another time, another subject, or another word of asking."""

import re
from collections.abc import Iterable
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
from archqa.query.everyday.marks import Mark
from archqa.query.everyday.tokens import tokenize
from archqa.query.scope import Span

_BEFORE_NAME = re.compile(r"\b(?:an?|the|his|her|my|their) $", re.IGNORECASE)
_INDEFINITE = re.compile(r"\ban? $", re.IGNORECASE)
_PAST = frozenset({"was", "were", "did", "had"})
_PRESENT = frozenset({"is", "are", "am", "do", "does", "has", "have"})
_PAST_OF = {"is": "was", "are": "were", "am": "was", "does": "did", "do": "did"}
_UNTIL_NOW = frozenset({"since", "this", "today", "now"})
_WH_FIELDS = frozenset({"reason", "time", "place"})
_WH_WORDS = frozenset({"how_long", "how_often", "how_much", "how_high"})
_ASKING = {
    "when": "When",
    "why": "Why",
    "where": "Where",
    "how_long": "How long",
    "count": "How many times",
    "frequency": "How many times",
}
"""What may be asked of a yes/no question by setting these words before it."""


class _Stretch(NamedTuple):
    """A stretch of characters and what takes its place."""

    start: int
    end: int
    text: str = ""


def at_time(asked: AskedBefore, period: str, last_of: Subject | None = None) -> str:
    """Return the question about another time, such as "in 2020" or "before 2024-08-29".

    Of a subject `last_of`, its last value is asked for.
    """
    stretches = [_stretch(asked, each) for each in asked.clause.of("span")]
    stretches += [_stretch(asked, each) for each in _words_for_now(asked)]
    stretches += _in_the_past(asked, period)
    if last_of is not None:
        stretches.append(_Stretch(last_of.start, last_of.start, "last "))
    return _ended(_changed(asked, stretches), period)


def _in_the_past(asked: AskedBefore, period: str) -> list[_Stretch]:
    """The verb that stands in the present, in the past: "Is she on it" was it, in 2020."""
    if period.split()[0] in _UNTIL_NOW:
        return []
    for token in asked.clause.tokens:
        if token.text in _PAST_OF and asked.text[token.start : token.end].lower() == token.text:
            past = _PAST_OF[token.text]
            is_first = asked.text[token.start].isupper()
            return [_Stretch(token.start, token.end, past.capitalize() if is_first else past)]
    return []


def _words_for_now(asked: AskedBefore) -> list[Mark]:
    """ "Currently" and "now", which contradict another time."""
    marks = asked.clause.of("state", "current")
    return [each for each in marks if not set(each.text.split()) & {"active", "open", "still"}]


def of_subject(asked: AskedBefore, name: str, *, with_article: bool) -> str:
    """Return the question about another subject; an own article takes the place of the former."""
    first, last = asked.subjects[0], asked.subjects[-1]
    former = _BEFORE_NAME if with_article else _INDEFINITE
    before = former.search(asked.text[: first.start])
    start = before.start() if before else first.start
    if with_article and not before:  # "Last A1c" has no place for "her" of "her glucose".
        name = name.partition(" ")[2] or name
    return _tidy(asked.text[:start] + name + asked.text[last.end :])


def asked_why_or_when(asked: AskedBefore, attribute: str) -> str | None:
    """Return a question as "Why …" or "When …", if it is one of yes or no, or begins with "when".

    None where that would be no good English, as "When is he on metformin?".
    """
    if attribute not in _ASKING or not asked.words:
        return None
    if attribute == "frequency" and any("drug" in each.kinds for each in asked.subjects):
        return None
    opening = _ASKING[attribute]
    first = asked.clause.tokens[0].text
    if first in _PAST or (first in _PRESENT and not asked.subjects):
        return _tidy(f"{opening} {_lower_first(_without_ever(asked))}")
    return _with_other_opening(asked, opening)


def _with_other_opening(asked: AskedBefore, opening: str) -> str | None:
    """Return "When was he given it?" as "Why was he given it?"; None for another question."""
    first, *rest = asked.clause.marks
    is_wh = first.kind == "field" and first.value in _WH_FIELDS
    if not is_wh and not (first.kind == "wh" and first.value in _WH_WORDS):
        return None
    verbs = {"verb", "class", "state", "concept"}
    has_verb = any(each.kind in verbs and _is_said_of_somebody(asked, each) for each in rest)
    auxiliary = asked.clause.tokens[first.end].text if first.end < len(asked.clause.tokens) else ""
    if not has_verb or auxiliary not in _PAST | _PRESENT:
        return None
    return _tidy(opening + asked.text[asked.clause.tokens[first.end - 1].end :])


def _is_said_of_somebody(asked: AskedBefore, each: Mark) -> bool:
    """Whether a mark is a verb, and no thing that the question names."""
    start = asked.clause.tokens[each.start].start
    return all(not subject.start <= start < subject.end for subject in asked.subjects)


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
    core = words.core
    return _sentence(core[:start] + name + core[end:])


def _without_ever(asked: AskedBefore) -> str:
    return _changed(asked, (_stretch(asked, each) for each in asked.clause.of("ever", "ever")))


def _stretch(asked: AskedBefore, each: Mark) -> _Stretch:
    tokens = asked.clause.tokens
    return _Stretch(tokens[each.start].start, tokens[each.end - 1].end)


def _changed(asked: AskedBefore, stretches: Iterable[_Stretch]) -> str:
    text = asked.text
    for stretch in sorted(stretches, reverse=True):
        text = text[: stretch.start] + stretch.text + text[stretch.end :]
    return text


def _ended(text: str, ending: str) -> str:
    """Return a question with words at its end, before the question mark."""
    body = text.rstrip(" ?.!,")
    return _tidy(f"{body} {ending}?")


def _sentence(text: str) -> str:
    text = _tidy(text)
    text = text[:1].upper() + text[1:]
    return text if text[-1:] in {"?", ".", "!"} else f"{text}?"


def _tidy(text: str) -> str:
    return re.sub(r" +([?.!,])", r"\1", " ".join(text.split()))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


_NAMING = frozenset({"concept", "name", "unknown", "germ"})
_OWN = _NAMING | {"specimen", "class", "row", "person"}
_BESIDE_NAMES = frozenset({"article", "pronoun"})
_ARTICLES = frozenset({"a", "an", "the", "his", "her", "my", "their"})
_PERSONAL = frozenset({"he", "she", "i", "they", "we", "you", "him", "them", "me"})
_PREPOSITIONS = frozenset({"for", "with", "to", "on", "of", "against"})
_LONGEST_FRAGMENT = 5


class NamedSubject(NamedTuple):
    """A name that takes the place of the last subject, and a stretch of time, if it has one."""

    text: str
    has_article: bool
    period: str


def has_own_subject(words: FollowUpWords) -> bool:
    """Whether a question names a thing of its own."""
    return any(each.kind in _OWN and not _names_nothing(each) for each in words.clause.marks)


def says_nothing(words: FollowUpWords) -> bool:
    """Whether a question has words such as "happened", which name nothing by themselves."""
    return any(_names_nothing(each) for each in words.clause.marks)


def _names_nothing(each: Mark) -> bool:
    empty = {word for phrase in edge_words("empty") for word in phrase.words}
    return each.kind == "unknown" and set(each.text.split()) <= empty


def is_fragment(words: FollowUpWords) -> bool:
    """Whether a question is too short to say of what it asks."""
    has_person = bool(_PERSONAL & set(words.all_words))
    return len(words.words) <= _LONGEST_FRAGMENT and not has_person


def names_subject_before_reference(words: FollowUpWords) -> bool:
    """Whether "it" may mean what the question itself has named before."""
    first = words.references[0].start
    return any(subject.start < first for subject in subjects_of(words.text, words.clause))


def named_subject(words: FollowUpWords, asked: AskedBefore) -> NamedSubject | None:
    """Return the name that a follow-up consists of, if the last question can be asked of it."""
    marks = _core_marks(words)
    names = [each for each in marks if each.kind in _NAMING]
    if not names or not asked.subjects or not _is_one_place(asked):
        return None
    if words.periods and not words.has_lead:  # A whole question in shorthand.
        return None
    preposition = _preposition(words, marks)
    if preposition:
        marks = marks[1:]
    is_asked_so = preposition == _preposition_before(asked) if preposition else None
    if is_asked_so is False or not all(_belongs_to_name(each) for each in marks):
        return None
    if not is_asked_so and not _may_replace(words, names, asked):
        return None
    first = next(each for each in marks if each.kind != "span")
    last = [each for each in marks if each.kind != "span"][-1]
    tokens = words.clause.tokens
    text = words.text[tokens[first.start].start : tokens[last.end - 1].end]
    if text.lower() in {subject.name.lower() for subject in asked.subjects}:
        return None
    has_article = tokens[first.start].text in _ARTICLES
    return NamedSubject(text, has_article, next(iter(words.periods), ""))


def _core_marks(words: FollowUpWords) -> list[Mark]:
    """The marks between the words at the edges, without signs."""
    if not words.words:
        return []
    tokens, start, end = words.clause.tokens, words.words[0].start, words.words[-1].end
    return [
        each
        for each in words.clause.marks
        if each.kind != "sign"
        and tokens[each.start].start >= start
        and tokens[each.end - 1].end <= end
    ]


def _belongs_to_name(each: Mark) -> bool:
    if each.kind == "filler":
        return each.value in _BESIDE_NAMES and each.text not in _PERSONAL
    is_measure = each.kind == "noun" and each.value == "measure"
    is_name = each.kind in _NAMING and not _PERSONAL & set(each.text.split())
    return is_name or each.kind == "span" or is_measure


def _preposition(words: FollowUpWords, marks: list[Mark]) -> str:
    text = words.clause.tokens[marks[0].start].text
    return text if text in _PREPOSITIONS and marks[0].kind in {"filler", "link"} else ""


def _preposition_before(asked: AskedBefore) -> str:
    """The preposition before the subject of the last question."""
    before = asked.text[: asked.subjects[0].start].lower().split()
    if before and before[-1] in _ARTICLES:
        before.pop()
    return before[-1] if before else ""


def _is_one_place(asked: AskedBefore) -> bool:
    """Whether the subjects are one, or a list joined by "or" and "and"."""
    for former, following in zip(asked.subjects, asked.subjects[1:], strict=False):
        between = asked.text[former.end : following.start].replace(",", " ").split()
        if not set(between) <= {"or", "and"} | _ARTICLES:
            return False
    return True


def _may_replace(words: FollowUpWords, names: list[Mark], asked: AskedBefore) -> bool:
    """Whether the last question can be asked of the names: they are of its subject's kind."""
    own = _kinds_of(words, names)
    kinds = asked.subjects[0].kinds
    if not words.has_lead and "measurement" in own and not _has_verb(asked):
        return False  # After "last A1c?", "LDL?" is a whole question too.
    if own & kinds or "allergy" in kinds:
        return True
    return words.has_lead and ("other" in own or "other" in kinds)


def _has_verb(asked: AskedBefore) -> bool:
    return any(each.value == "auxiliary" for each in asked.clause.marks)


def _kinds_of(words: FollowUpWords, names: list[Mark]) -> frozenset[str]:
    tokens = words.clause.tokens
    start = tokens[names[0].start].start
    found: list[Subject] = [
        subject for subject in subjects_of(words.text, words.clause) if subject.start >= start
    ]
    kinds = (kind for subject in found for kind in subject.kinds)
    return frozenset(kinds) or frozenset({"other"})


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_YEAR_ALONE = re.compile(r"\d{4}")
_POINTS = frozenset({"measurement", "procedure", "vaccine"})
"""Kinds of which a record has one after another, each with a date."""


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


def asked_in_period(asked: AskedBefore, period: str) -> str:
    """Return the last question about a stretch of time."""
    typed = period.strip()
    return at_time(asked, f"in {typed}" if _YEAR_ALONE.fullmatch(typed) else typed)


def limit_of_answer(asked: AskedBefore, relation: str, today: date) -> TimeLimit | None:
    """Return the time before or after the dates of the last answer; None without a date."""
    found = _date_of(asked, relation, today)
    return None if found is None else TimeLimit(relation, found)


def asked_before_or_after(asked: AskedBefore, limit: TimeLimit, which: str) -> str:
    """Return the last question before or after a date."""
    is_single = which == "one" or len(asked.turn.lines) == 1
    is_of_last = limit.relation == "before" and is_single
    return at_time(asked, limit.words, _one_after_another(asked) if is_of_last else None)


def _one_after_another(asked: AskedBefore) -> Subject | None:
    """The one value that is asked for without saying which: its last one is meant."""
    is_open = asked.words[:1] in {("what",), ("when",)}
    has_position = any(asked.clause.has(kind) for kind in ("position", "extreme", "summary"))
    if not is_open or has_position or len(asked.subjects) != 1:
        return None
    subject = asked.subjects[0]
    return subject if subject.kinds & _POINTS else None


def _date_of(asked: AskedBefore, relation: str, today: date) -> str | None:
    """The date before, or after, which further answers lie."""
    dates = sorted(_dates(asked))
    if dates:
        return dates[0] if relation == "before" else dates[-1]
    spans = [span for each in asked.clause.of("span") for span in each.spans]
    return _bound(spans[0], today) if spans else None


def _dates(asked: AskedBefore) -> set[str]:
    cited = {name for line in asked.turn.lines for name in line.citations}
    dates = set()
    for piece in asked.turn.evidence:
        if piece.id in cited and (match := _DATE.match(piece.date)):
            dates.add(match[0])
    return dates


def _bound(span: Span, today: date) -> str | None:
    """The year, month or day of a span, as the question had it."""
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


def relation_in(words: FollowUpWords) -> str | None:
    """Return "before" or "after" of a question that has "before that", "since then" or the like."""
    texts = [token.text for token in tokenize(words.text)]
    return next((phrase.value for _, phrase in _times(texts)), None)


def with_dates(words: FollowUpWords, asked: AskedBefore, today: date) -> str | None:
    """Return a question with a date in place of "that" in "before that"; None if there is none."""
    tokens = tokenize(words.text)
    texts = [token.text for token in tokens]
    for place, phrase in _times(texts):
        found = _date_of(asked, phrase.value, today)
        if found is None:
            continue
        start, end = tokens[place].start, tokens[place + len(phrase.words) - 1].end
        return f"{words.text[:start]}{phrase.value} {found}{words.text[end:]}"
    return None


def _times(texts: list[str]) -> list[tuple[int, Phrase]]:
    found = []
    for place in range(len(texts)):
        phrase = longest_at(references(), texts, place)
        if phrase is not None and phrase.kind == "time":
            found.append((place, phrase))
    return found
