"""The last question at another time: in a named one, or before or after what its answer found."""

import re
from datetime import date
from typing import NamedTuple

from archqa.asking.thread.changed_question import at_time
from archqa.asking.thread.follow_up_words import FollowUpWords
from archqa.asking.thread.phrases import Phrase, longest_at, references
from archqa.asking.thread.subjects import AskedBefore, Subject
from archqa.query.questions.lexer import tokenize
from archqa.query.scope import Span

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
