"""Lengths of time as lines of an answer: how long ago something was, how long a stay was."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from archqa.asking.record_displays import sentence_case
from archqa.asking.record_lines import row_statements
from archqa.asking.record_numbers import computed_text, since_text, stay_text
from archqa.asking.record_statements import Statement, latest_first
from archqa.asking.record_subjects import noun
from archqa.asking.record_support import Support
from archqa.query.execution.rows import Row
from archqa.query.model import Query

_LONGEST = {"minimum": "Shortest", "maximum": "Longest"}
_SECONDS_PER_DAY = 86400


def elapsed_statements(query: Query, rows: Sequence[Row], support: Support) -> list[Statement]:
    """Return how long ago each row was: `3 years and 2 months ago, on 2023-09-05: Colonoscopy`."""
    now = datetime.fromisoformat(query.now) if query.now else None
    statements = []
    for row in latest_first(rows):
        text = row_statements(query, [row], support)[0].text
        if now is not None and row.local_time is not None:
            text = f"{since_text(row.local_time, now)}: {text}"
        statements.append(Statement(sentence_case(text), (row,)))
    return statements


def stay_statements(query: Query, rows: Sequence[Row], support: Support) -> list[Statement]:
    """Return how long each stay was, newest first."""
    statements = []
    for row in latest_first(rows):
        text = row_statements(query, [row], support)[0].text
        length = "length not recorded"
        if row.local_time and row.local_end:
            length = stay_text(row.local_time, row.local_end)
        statements.append(Statement(sentence_case(f"{length}: {text}"), (row,)))
    return statements


def stay_summary(query: Query, rows: Sequence[Row], support: Support) -> Iterator[Statement]:
    """Yield the shortest, longest, average or total stay; nothing where no length is recorded."""
    stays = [row for row in rows if row.local_time and row.local_end]
    if not stays:
        return
    lengths = [_seconds(row) for row in stays]
    number = f"{len(stays)} {noun(query, len(stays))}"
    if query.summary in _LONGEST:
        wanted = min(lengths) if query.summary == "minimum" else max(lengths)
        decisive = [row for row, length in zip(stays, lengths, strict=True) if length == wanted]
        told = stay_statements(query, decisive[:1], support)[0].text
        text = f"{_LONGEST[query.summary]} of {number}: {told}" if len(stays) > 1 else told
        yield Statement(text, tuple(decisive))
        return
    days = sum(lengths) / _SECONDS_PER_DAY
    word = "in total"
    if query.summary == "average":
        days, word = days / len(stays), "on average"
    yield Statement(f"{computed_text(days)} days {word}, over {number}", tuple(stays))


def _seconds(row: Row) -> float:
    start, end = row.local_time, row.local_end
    return (end - start).total_seconds() if start and end else 0
