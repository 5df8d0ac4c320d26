"""Counts, extremes, averages, sums, changes and lengths of time as lines of an answer."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.asking.record_details import MAX_LINES, Statement, by_label, latest_first
from archqa.asking.record_lines import converted_text, row_statements, unit_text, value_text
from archqa.asking.record_support import Support
from archqa.asking.record_words import (
    DRUGS,
    asked_names,
    clean_name,
    clock_text,
    computed_text,
    counted_limits,
    date_text,
    is_narrow,
    listed,
    noun,
    row_label,
    sentence_case,
    since_text,
    stay_text,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.model import Query

_MAX_TOLD = 8
"""Values of a series that are told one by one."""

_MAX_TURNS = 3
"""Ups and downs of a series that are told one by one."""

ValueOn = Callable[[Row], str]
"""A value with its date: `72.2 kg on 2019-09-15`."""


def change_statements(label: str, rows: Sequence[Row], value_on: ValueOn) -> Iterator[Statement]:
    """Yield the change from the first value to the last, and the way between them.

    `rows` have numbers in one unit and come oldest first.
    """
    first, last = rows[0], rows[-1]
    if len(rows) < 2:
        yield Statement(f"{label}: only one value, {value_on(first)}", (first,))
        return
    change = f"{label}: {_difference(first, last)}"
    text = f"{change}: from {value_on(first)} to {value_on(last)}"
    yield Statement(text, (first, last))
    if len(rows) > 2:
        yield _course(label, rows, value_on)


def _difference(first: Row, last: Row) -> str:
    difference = _number(last) - _number(first)
    if difference == 0:
        return "no change"
    amount = f"{computed_text(abs(difference))} {unit_text(last.unit)}".strip()
    return f"{amount} {'more' if difference > 0 else 'less'}"


def _course(label: str, rows: Sequence[Row], value_on: ValueOn) -> Statement:
    """Which way the values went from the first to the last, with the values at the turns."""
    turns = _turns(rows)
    decisive = [row for _, row in turns]
    course = "it stayed the same"
    if len(turns) > _MAX_TURNS:
        decisive = [max(rows, key=_number), min(rows, key=_number)]
        highest, lowest = (value_on(row) for row in decisive)
        course = f"it went up and down, highest {highest}, lowest {lowest}"
    elif len(turns) == 1 and len(rows) <= _MAX_TOLD:
        decisive = list(rows[1:-1])
        between = listed([value_on(row) for row in decisive])
        course = f"it only {turns[0][0]}, between them {between}"
    elif turns:
        moves = [f"{verb} to {value_on(row)}" for verb, row in turns]
        course = f"it {', then '.join(moves)}"
    return Statement(f"{label}, {len(rows)} results: {course}", (rows[0], *decisive, *rows[1:]))


def _turns(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The moves of a series: `rose` or `fell`, and the row where each move ends."""
    turns: list[tuple[str, Row]] = []
    for before, after in itertools.pairwise(rows):
        if _number(before) == _number(after):
            continue
        verb = "rose" if _number(after) > _number(before) else "fell"
        if turns and turns[-1][0] == verb:
            turns.pop()
        turns.append((verb, after))
    return turns


def _number(row: Row) -> float:
    return row.value or 0


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


_MAX_DATES = 6
"""Dates of a count that are all written out; of more, the first and the last."""

_MAX_NAMES = 12
_PROPERTY = re.compile(r"\[[^\]]*\]")
"""The property in a long name of LOINC: `[Mass/volume]`."""

_EXTREME = {"minimum": "Lowest", "maximum": "Highest"}
_SUMMARY_WORDS = {**_EXTREME, "average": "Average", "sum": "Sum of"}


class Summary(NamedTuple):
    """The statements of a summary, and what could not be computed."""

    statements: tuple[Statement, ...]
    remarks: tuple[str, ...] = ()


def summary_statements(query: Query, result: QueryResult, support: Support) -> Summary:
    """Return what a query with a summary (other than each and exists) found; it has chosen rows."""
    writer = _Summaries(query, support)
    rows = result.chosen
    if query.per is not None:
        return Summary(tuple(_on_few_lines(list(writer.by_period(result)))))
    if query.summary == "count":
        return Summary((writer.count(rows),))
    if query.summary == "count_distinct":
        return Summary((writer.count_distinct(rows, result.answer.values),))
    if query.returns == "length_of_stay":
        return Summary(tuple(stay_summary(query, rows, support)))
    if query.returns in {"time", "end_time"}:
        return Summary(tuple(writer.first_or_last(rows)))
    if query.summary == "change":
        rows = result.rows  # All values between the first and the last, which are chosen.
    return writer.numbers(rows)


def span_text(rows: Sequence[Row]) -> str:
    """Return the time that rows cover: `on D`, `from D to D`; empty without dates."""
    times = sorted(row.local_time for row in rows if row.local_time)
    if not times:
        return ""
    first, last = date_text(times[0]), date_text(times[-1])
    return f"on {first}" if first == last else f"from {first} to {last}"


class _Summaries:
    """Writes the summaries of one query."""

    def __init__(self, query: Query, support: Support) -> None:
        self._query = query
        self._support = support
        self._with_clock = is_narrow(query.when)

    def count(self, rows: Sequence[Row]) -> Statement:
        """`12 emergency visits, the first on …, the last on …`, citing first and last first."""
        count = len(rows)
        limits = counted_limits(self._query, count)
        number = " ".join(filter(None, (str(count), noun(self._query, count), limits)))
        names = asked_names(self._query)
        head = f"{sentence_case(names)}: {number}" if names else number
        dates = self._dates(rows)
        ends = (rows[0], rows[-1]) if len(rows) > 1 else tuple(rows)
        return Statement(f"{head}{dates}", (*ends, *rows[1:-1]))

    def _dates(self, rows: Sequence[Row]) -> str:
        texts = [self._date(row) for row in rows if row.time]
        dates = list(dict.fromkeys(texts))
        if not dates:
            return ", dates not recorded"
        if len(dates) <= _MAX_DATES:
            return f", on {listed(dates)}"
        return f", the first on {dates[0]}, the last on {dates[-1]}"

    def count_distinct(self, rows: Sequence[Row], values: Sequence[object]) -> Statement:
        """`3 different medication orders: …`, the number from the executor, who told them apart."""
        returns = self._query.returns
        names: dict[str, str] = {}
        for row in rows:
            for name in (row.name,) if returns == "name" else row.facts.get(returns, ()):
                names.setdefault(name.casefold().strip(), clean_name(name))
        number = next((value for value in values if isinstance(value, int)), len(names))
        field = "drug" if self._query.what in DRUGS and returns == "name" else returns
        things = f"{field.replace('_', ' ')}{'' if number == 1 else 's'}"
        things = f"{things} among {len(rows)} {noun(self._query, len(rows))}"
        shown = "; ".join(list(names.values())[:_MAX_NAMES])
        rest = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        text = f"{number} different {things}"
        return Statement(f"{text}: {shown}{rest}" if shown else text, tuple(rows))

    def by_period(self, result: QueryResult) -> Iterator[Statement]:
        """One statement for each day, month or year that has a value."""
        for period, value in zip(result.answer.periods, result.answer.values, strict=True):
            rows = [row for row in result.chosen if _is_in(row, period)]
            if isinstance(value, str) or value is None or not rows:
                continue
            if self._query.summary == "count":
                text = f"{computed_text(value)} {noun(self._query, len(rows))}"
            else:
                labels = listed([_inside(label) for label, _ in by_label(rows, self._label)])
                text = f"{_SUMMARY_WORDS[self._query.summary].lower()} {labels} "
                text += f"{computed_text(value)} {unit_text(result.answer.unit)}".strip()
            yield Statement(f"{period}: {text}", tuple(rows))

    def first_or_last(self, rows: Sequence[Row]) -> list[Statement]:
        """The rows with the earliest or the latest start or end."""
        by_end = self._query.returns == "end_time"
        times = [row.local_end if by_end else row.local_time for row in rows]
        known = [time for time in times if time is not None]
        if not known:
            return []
        wanted = min(known) if self._query.summary == "minimum" else max(known)
        decisive = [row for row, time in zip(rows, times, strict=True) if time == wanted]
        return row_statements(self._query, decisive, self._support)

    def numbers(self, rows: Sequence[Row]) -> Summary:
        """The extremes, averages, sums or changes of the numbers, one statement for each name."""
        statements: list[Statement] = []
        remarks = []
        with_numbers = [row for row in rows if row.value is not None]
        for label, group in by_label(with_numbers, self._label):
            units = dict.fromkeys(unit_text(row.unit) for row in group)
            if len(units) > 1:
                names = listed([unit or "none" for unit in units])
                remarks.append(
                    f"Not computed for {label}: the values have different units ({names})."
                )
                continue
            if self._query.summary != "sum":
                group = _once_each(group)
            for part_label, part in self._parts(label, group):
                statements += self._summarised(part_label, part)
        left_out = len(rows) - len(with_numbers)
        if left_out:
            remarks.append(f"{left_out} of {len(rows)} results are no numbers and are left out.")
        return Summary(tuple(statements), tuple(remarks))

    def _parts(self, label: str, rows: Sequence[Row]) -> Iterator[tuple[str, Sequence[Row]]]:
        """The rows by display where two displays disagree at one time: a change is of one of them."""
        if self._query.summary != "change" or not _disagree(rows):
            yield label, rows
            return
        yield from by_label(rows, _label_with_specimen)

    def _label(self, row: Row) -> str:
        return row_label(self._query, row)

    def _summarised(self, label: str, rows: Sequence[Row]) -> list[Statement]:
        summary = self._query.summary
        if summary in _EXTREME:
            return [self.extreme(label, rows, summary)]
        if summary == "change":
            return list(change_statements(label, rows, self._value_on))
        values = list(map(_number, rows))
        total = sum(values)
        number = total / len(values) if summary == "average" else total
        word = "average" if summary == "average" else "sum"
        value = f"{computed_text(number)} {unit_text(rows[0].unit)}".strip()
        text = f"{label}, {word}: {value} over {_results(len(rows))}"
        return [Statement(f"{text}, {span_text(rows)}", tuple(latest_first(rows)))]

    def extreme(self, label: str, rows: Sequence[Row], summary: str) -> Statement:
        """`Highest creatinine 2.11 mg/dL on 2017-12-30, of 24 results from … to …`."""
        values = list(map(_number, rows))
        wanted = min(values) if summary == "minimum" else max(values)
        decisive = [row for row in rows if _number(row) == wanted]
        dates = list(dict.fromkeys(self._date(row) for row in decisive if row.time))
        text = f"{_EXTREME[summary]} {_inside(label)}: {value_text(decisive[0])}"
        if dates:
            more = len(dates) - _MAX_DATES
            shown = listed(dates[:_MAX_DATES]) if more <= 0 else ", ".join(dates[:_MAX_DATES])
            text = f"{text} on {shown}{f' and {more} more days' if more > 0 else ''}"
        if len(rows) > 1:
            text = f"{text}, of {_results(len(rows))} {span_text(rows)}"
        converted = converted_text(decisive[0], self._support)
        return Statement(f"{text} ({converted})" if converted else text, tuple(decisive))

    def _value_on(self, row: Row) -> str:
        value = value_text(row)
        converted = converted_text(row, self._support)
        if converted:
            value = f"{value} ({converted})"
        return f"{value} on {self._date(row)}" if row.time else value

    def _date(self, row: Row) -> str:
        if self._with_clock and row.time:
            return clock_text(row.time)
        return self._support.date(row, row.time)


def _on_few_lines(statements: list[Statement]) -> list[Statement]:
    """The periods one a line; of too many for that, all on one line."""
    if len(statements) <= MAX_LINES:
        return statements
    text = "; ".join(statement.text for statement in statements)
    return [Statement(text, tuple(row for statement in statements for row in statement.rows))]


def _inside(label: str) -> str:
    """A label inside of a sentence: its first letter small unless it is an acronym."""
    if label[1:2].isupper() or label[1:2].isdigit():
        return label
    return label[:1].lower() + label[1:]


def _results(count: int) -> str:
    return f"{count} result" if count == 1 else f"{count} results"


def _is_in(row: Row, period: str) -> bool:
    return any(
        time is not None and time.isoformat().startswith(period)
        for time in (row.local_time, row.local_end)
    )


def _label_with_specimen(row: Row) -> str:
    """`Creatinine in Blood`, where the display alone tells two results apart."""
    return " ".join(_PROPERTY.sub(" ", row.name).split())


def _disagree(rows: Sequence[Row]) -> bool:
    """Whether rows of two displays have different values at one time."""
    values: dict[object, set[float]] = defaultdict(set)
    displays: dict[object, set[str]] = defaultdict(set)
    for row in rows:
        values[row.time].add(_number(row))
        displays[row.time].add(row.name)
    return any(len(values[time]) > 1 and len(displays[time]) > 1 for time in values)


def _once_each(rows: Sequence[Row]) -> list[Row]:
    """Rows without repetitions: the same value at the same time, recorded twice, counts once."""
    kept: dict[tuple[object, object], Row] = {}
    for row in rows:
        kept.setdefault((row.value, row.time or id(row)), row)
    return list(kept.values())
