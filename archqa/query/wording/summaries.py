"""Counts, extremes, averages, sums, changes and lengths of time as lines of an answer.

`format_agent_answer` gives the bare values instead, as FHIR-AgentBench prints them.
"""

import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from archqa.query.execution.findings import QueryResult, Scalar
from archqa.query.execution.rows import Row, extreme_rows, longest_rows
from archqa.query.model import Query
from archqa.query.wording.details import MAX_LINES, Statement, by_label, latest_first
from archqa.query.wording.rows import (
    converted_text,
    row_statements,
    row_text,
    unit_text,
    value_text,
)
from archqa.query.wording.support import Support
from archqa.query.wording.words import (
    DRUGS,
    asked_names,
    clean_name,
    clock_text,
    computed_text,
    counted_limits,
    counted_results,
    date_text,
    in_unit,
    is_narrow,
    listed,
    noun,
    number_text,
    row_label,
    row_status,
    sentence_case,
    since_text,
    stay_text,
)

_MAX_COURSE_VALUES = 8
"""Values of a series that are told one by one."""

_MAX_TURNS = 3
"""Ups and downs of a series that are told one by one."""

LONGEST = {"minimum": "Shortest", "maximum": "Longest"}
_MAX_DATES = 6
"""Dates of a count that are all written out; of more, the first and the last."""

_MAX_NAMES = 12
_MAX_UNDECIDED = 3
"""Results that could not be compared and are named."""

_PROPERTY = re.compile(r"\[[^\]]*\]")
"""The property in a long name of LOINC: `[Mass/volume]`."""

EXTREMES = {"minimum": "Lowest", "maximum": "Highest"}
_SUMMARY_WORDS = {**EXTREMES, "average": "Average", "sum": "Sum of"}


class Summary(NamedTuple):
    """The statements of a summary, and what could not be computed."""

    statements: tuple[Statement, ...]
    remarks: tuple[str, ...] = ()


def summary_statements(query: Query, result: QueryResult, support: Support) -> Summary:
    """Return what a query with a summary (other than each and exists) found; it has chosen rows."""
    writer = _Summaries(query, support)
    rows = result.chosen
    if query.per is not None:
        return Summary(writer.by_period(result))
    if query.summary == "count":
        return Summary((writer.count(rows),))
    if query.summary == "count_distinct":
        return Summary((writer.count_distinct(rows, result.answer.values),))
    if query.returns == "length_of_stay":
        return Summary(writer.stays(rows))
    if query.returns in {"time", "end_time"}:
        return Summary(writer.first_or_last(rows))
    if query.summary == "change":
        # All values between the first and the last, which are chosen.
        places = [place for place, row in enumerate(result.rows) if row.chosen]
        rows = result.rows[places[0] : places[-1] + 1]
    return writer.numbers(rows)


def elapsed_statements(
    query: Query, rows: Sequence[Row], support: Support
) -> list[Statement]:
    """Return how long ago each row was: `3 years and 2 months ago, on 2023-09-05: Colonoscopy`."""
    now = datetime.fromisoformat(query.now) if query.now else None
    statements = []
    for row in latest_first(rows):
        text = row_text(query, row, support)
        if now is not None and row.local_time is not None:
            since = since_text(row.local_time, now)
            length = now - row.local_time
            if query.unit not in {"minute", "hour"}:
                length = timedelta(days=(now.date() - row.local_time.date()).days)
            if query.unit and length > timedelta():
                since = f"{in_unit(length, query.unit)} ago ({since})"
            text = f"{since}: {text}"
        statements.append(Statement(sentence_case(text), (row,)))
    return statements


def stay_statements(
    query: Query, rows: Sequence[Row], support: Support
) -> list[Statement]:
    """Return how long each stay was, newest first."""
    statements = []
    for row in latest_first(rows):
        text = row_text(query, row, support)
        length = "length not recorded"
        if row.local_time and row.local_end and row.duration is not None:
            length = stay_text(row.local_time, row.local_end)
            hours = row.duration.total_seconds() / 3600
            if query.unit:
                length = f"{in_unit(row.duration, query.unit)} ({length})"
            elif query.what == "procedure" and "days" in length and hours % 24:
                length = f"{hours:.1f} hours ({hours / 24:.1f} days)"
        statements.append(Statement(sentence_case(f"{length}: {text}"), (row,)))
    return statements


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
        text = f"{count} {noun(self._query, count)}"
        if limits := counted_limits(self._query, count):
            text = f"{text} {limits}"
        if names := asked_names(self._query):
            text = f"{sentence_case(names)}: {text}"
        dates = self._dates(rows)
        if not dates:
            text = f"{text}, dates not recorded"
        elif len(dates) <= _MAX_DATES:
            text = f"{text}, on {listed(dates)}"
        else:
            text = f"{text}, the first on {dates[0]}, the last on {dates[-1]}"
        ends = (rows[0], rows[-1]) if count > 1 else tuple(rows)
        return Statement(text, (*ends, *rows[1:-1]))

    def count_distinct(
        self, rows: Sequence[Row], values: Sequence[object]
    ) -> Statement:
        """`3 different medication orders: …`, the number from the executor, who told them apart."""
        returns = self._query.returns
        names: dict[str, str] = {}
        for row in rows:
            for name in (row.name,) if returns == "name" else row.fact(returns):
                names.setdefault(name.casefold().strip(), clean_name(name))
        number = next((value for value in values if isinstance(value, int)), len(names))
        things = returns.replace("_", " ")
        if self._query.what in DRUGS and returns == "name":
            things = "drug"
        if number != 1:
            things = f"{things}s"
        text = f"{number} different {things} among {len(rows)} {noun(self._query, len(rows))}"
        if names:
            text = f"{text}: {'; '.join(list(names.values())[:_MAX_NAMES])}"
        if len(names) > _MAX_NAMES:
            text = f"{text} and {len(names) - _MAX_NAMES} more"
        return Statement(text, tuple(rows))

    def by_period(self, result: QueryResult) -> tuple[Statement, ...]:
        """The days, months or years that have a value one a line; too many of them on one line."""
        statements = []
        for period, value in zip(
            result.answer.periods, result.answer.values, strict=True
        ):
            rows = []
            for row in result.chosen:
                times = filter(None, (row.local_time, row.local_end))
                if any(time.isoformat().startswith(period) for time in times):
                    rows.append(row)
            if isinstance(value, str) or value is None or not rows:
                continue
            if self._query.summary == "count":
                text = f"{computed_text(value)} {noun(self._query, len(rows))}"
            else:
                labels = dict.fromkeys(
                    _inside(row_label(self._query, row)) for row in rows
                )
                word = _SUMMARY_WORDS[self._query.summary].lower()
                amount = (
                    f"{computed_text(value)} {unit_text(result.answer.unit)}".strip()
                )
                text = f"{word} {listed(list(labels))} {amount}"
            statements.append(Statement(f"{period}: {text}", tuple(rows)))
        if len(statements) <= MAX_LINES:
            return tuple(statements)
        texts = []
        all_rows: list[Row] = []
        for statement in statements:
            texts.append(statement.text)
            all_rows += statement.rows
        return (Statement("; ".join(texts), tuple(all_rows)),)

    def stays(self, rows: Sequence[Row]) -> tuple[Statement, ...]:
        """The shortest, longest, average or total stay; nothing where no length is recorded."""
        query = self._query
        stays = []
        total = timedelta()
        for row in rows:
            if row.duration is not None:
                stays.append(row)
                total += row.duration
        if not stays:
            return ()
        number = f"{len(stays)} {noun(query, len(stays))}"
        if query.summary == "minimum" or query.summary == "maximum":
            decisive = longest_rows(stays, query.summary)
            text = stay_statements(query, decisive[:1], self._support)[0].text
            if len(stays) > 1:
                text = f"{LONGEST[query.summary]} of {number}: {text}"
            return (Statement(text, tuple(decisive)),)
        word = "in total"
        if query.summary == "average":
            total, word = total / len(stays), "on average"
        unit = query.unit or ("day" if total >= timedelta(days=2) else "hour")
        text = f"{in_unit(total, unit)} {word}, over {number}"
        return (Statement(text, tuple(stays)),)

    def first_or_last(self, rows: Sequence[Row]) -> tuple[Statement, ...]:
        """The rows with the earliest or the latest start or end."""
        rows_at: dict[datetime, list[Row]] = {}
        for row in rows:
            time = (
                row.local_end if self._query.returns == "end_time" else row.local_time
            )
            if time is not None:
                rows_at.setdefault(time, []).append(row)
        if not rows_at:
            return ()
        wanted = min(rows_at) if self._query.summary == "minimum" else max(rows_at)
        return row_statements(self._query, rows_at[wanted], self._support)

    def numbers(self, rows: Sequence[Row]) -> Summary:
        """The extremes, averages, sums or changes of the numbers, one statement for each name."""
        summary = self._query.summary
        statements: list[Statement] = []
        remarks = []
        comparable = []
        for row in rows:
            has_number = row.value is not None
            if has_number or (summary in EXTREMES and row.interval is not None):
                comparable.append(row)
        for label, group in by_label(
            comparable, lambda row: row_label(self._query, row)
        ):
            units = dict.fromkeys(
                unit_text(row.unit) or "none" for row in group if row.value is not None
            )
            if len(units) > 1:
                names = listed(list(units))
                remarks.append(
                    f"Not computed for {label}: the values have different units ({names})."
                )
                continue
            if summary == "sum":
                statements.append(self._average_or_sum(label, group))
                continue
            values = _without_repetitions(group)
            if summary in EXTREMES:
                statements.append(self._extreme(label, values))
            elif summary != "change":
                statements.append(self._average_or_sum(label, values))
            elif _disagree(values):
                for display, series in by_label(values, _label_with_specimen):
                    statements += self._change(display, series)
            else:
                statements += self._change(label, values)
        uncounted = [row for row in rows if row.value is None and row.text]
        if uncounted and summary not in EXTREMES:
            remarks.append(f"Not counted: {_listed_values(self._query, uncounted)}.")
        return Summary(tuple(statements), tuple(remarks))

    def _average_or_sum(self, label: str, rows: Sequence[Row]) -> Statement:
        word = self._query.summary
        number = sum(map(_number, rows))
        if word == "average":
            number /= len(rows)
        value = f"{computed_text(number)} {unit_text(rows[0].unit)}".strip()
        label = self._of_dose(label)
        bounds = [row for row in rows if row.comparator]
        if words := _inexact_words(bounds):
            value = f"{words} {value}"
        text = f"{label}, {word}: {value} over {self._counted(rows)}, {span_text(rows)}"
        if bounds:
            text = f"{text}; {_listed_values(self._query, bounds)} counted as the bound"
        return Statement(text, tuple(latest_first(rows)))

    def _extreme(self, label: str, rows: Sequence[Row]) -> Statement:
        """`Highest creatinine 2.11 mg/dL on 2017-12-30, of 24 results from … to …`."""
        summary = self._query.summary
        decisive, _ = extreme_rows(
            rows, "minimum" if summary == "minimum" else "maximum"
        )
        value = value_text(decisive[0])
        if self._query.returns == "dose":
            number = number_text(_number(decisive[0]))
            value = f"{number} {unit_text(decisive[0].unit)}".strip()
        text = f"{EXTREMES[summary]} {_inside(self._of_dose(label))}: {value}"
        dates = self._dates(decisive)
        hidden = len(dates) - _MAX_DATES
        if hidden > 0:
            text = f"{text} on {', '.join(dates[:_MAX_DATES])} and {hidden} more days"
        elif dates:
            text = f"{text} on {listed(dates)}"
        if len(rows) > 1:
            text = f"{text}, of {self._counted(rows)} {span_text(rows)}"
        converted = converted_text(decisive[0], self._support)
        return Statement(
            f"{text} ({converted})" if converted else text, tuple(decisive)
        )

    def _of_dose(self, label: str) -> str:
        """The label of a number, which is one of doses where these are asked for."""
        return f"Dose of {label}" if self._query.returns == "dose" else label

    def _counted(self, rows: Sequence[Row]) -> str:
        if self._query.returns == "dose":
            return f"{len(rows)} {noun(self._query, len(rows))}"
        return counted_results(rows)

    def _change(self, label: str, rows: Sequence[Row]) -> Iterator[Statement]:
        """Yield the change from the first value to the last, and the way between them."""
        first, last = rows[0], rows[-1]
        if len(rows) < 2:
            yield Statement(
                f"{label}: only one value, {self._value_on(first)}", (first,)
            )
            return
        change = "no change"
        if difference := _number(last) - _number(first):
            amount = f"{computed_text(abs(difference))} {unit_text(last.unit)}".strip()
            change = f"{amount} {'more' if difference > 0 else 'less'}"
        if first.comparator or last.comparator:
            change = _change_between_bounds(first, last, change)
        text = (
            f"{label}: {change}: from {self._value_on(first)} to {self._value_on(last)}"
        )
        yield Statement(text, (first, last))
        if len(rows) > 2:
            yield self._course(label, rows)

    def _course(self, label: str, rows: Sequence[Row]) -> Statement:
        """Which way the values went from the first to the last, with the values at the turns."""
        turns = _turns(rows)
        decisive = []
        moves = []
        for verb, row in turns:
            decisive.append(row)
            moves.append(f"{verb} to {self._value_on(row)}")
        course = "it stayed the same"
        if len(turns) > _MAX_TURNS:
            decisive = [max(rows, key=_number), min(rows, key=_number)]
            highest, lowest = map(self._value_on, decisive)
            course = f"it went up and down, highest {highest}, lowest {lowest}"
        elif len(turns) == 1 and len(rows) <= _MAX_COURSE_VALUES:
            decisive = list(rows[1:-1])
            between = listed(list(map(self._value_on, decisive)))
            course = f"it only {turns[0][0]}, between them {between}"
        elif turns:
            course = f"it {', then '.join(moves)}"
        text = f"{label}, {len(rows)} results: {course}"
        return Statement(text, (rows[0], *decisive, *rows[1:]))

    def _value_on(self, row: Row) -> str:
        """A value with its date: `72.2 kg on 2019-09-15`."""
        value = value_text(row)
        if converted := converted_text(row, self._support):
            value = f"{value} ({converted})"
        return f"{value} on {self._date(row)}" if row.time else value

    def _dates(self, rows: Sequence[Row]) -> list[str]:
        return list(dict.fromkeys(self._date(row) for row in rows if row.time))

    def _date(self, row: Row) -> str:
        if self._with_clock and row.time:
            return clock_text(row.time)
        return self._support.date(row, row.time)


def _without_repetitions(rows: Sequence[Row]) -> list[Row]:
    """The rows, of which the same value at the same time, recorded twice, counts once."""
    once: dict[object, Row] = {}
    for row in rows:
        once.setdefault((row.value, row.text, row.time or id(row)), row)
    return list(once.values())


def undecided_remarks(query: Query, result: QueryResult) -> Iterator[str]:
    """Yield which results may also count, and which could not be compared with a number."""
    bounds: list[Row] = []
    others: list[Row] = []
    for row in {id(row): row for row in result.undecided}.values():
        (others if row.interval is None else bounds).append(row)
    extreme = query.extreme or query.summary
    if bounds and extreme in EXTREMES:
        word = "lower" if extreme == "minimum" else "higher"
        yield f"May be {word}: {_listed_values(query, bounds)}."
    elif bounds and query.value is not None and result.chosen:
        values = _listed_values(query, bounds)
        yield f"Whether it is {query.value} cannot be told of {values}."
    if others and (query.value is not None or extreme in EXTREMES):
        yield f"Not compared, as {_values_verb(others)} no number: {_listed_values(query, others)}."


def failed_remarks(query: Query, result: QueryResult) -> Iterator[str]:
    """Yield the results that have no value and are newer than those of the answer."""
    if result.chosen and query.summary not in {"each", "exists"}:
        return
    newest: datetime | None = None
    for row in result.chosen:
        if row.time and (newest is None or _is_later(row.time, newest)):
            newest = row.time
    failed = []
    for row in result.left_out:
        is_newer = newest is None or row.time is None or _is_later(row.time, newest)
        if is_newer and (row.fact("data_absent") or row_status(row) == "cancelled"):
            failed.append(row)
    if failed:
        newer = "newer " if newest else ""
        subject = f"A {newer}result has" if len(failed) == 1 else f"{newer}results have"
        yield f"{sentence_case(subject)} no value: {_listed_values(query, failed)}."


def _is_later(time: datetime, other: datetime) -> bool:
    if time.tzinfo is None or other.tzinfo is None:
        return time.replace(tzinfo=None) > other.replace(tzinfo=None)
    return time > other


def _values_verb(rows: Sequence[Row]) -> str:
    return "it is" if len(rows) == 1 else "they are"


def _listed_values(query: Query, rows: Sequence[Row]) -> str:
    """`INR >8 on 2025-01-20 and …`, the newest first; of many the number."""
    texts = []
    for row in latest_first(rows)[:_MAX_UNDECIDED]:
        value = value_text(row) or ", ".join(row.fact("data_absent"))
        text = f"{row_label(query, row)} {value or row_status(row)}"
        if row.local_time:
            text = f"{text} on {date_text(row.local_time)}"
        texts.append(text)
    if len(rows) > _MAX_UNDECIDED:
        texts.append(f"{len(rows) - _MAX_UNDECIDED} more")
    return listed(texts)


def _inexact_words(bounds: Sequence[Row]) -> str:
    """How a number stands to the true one where these bounds are counted as numbers."""
    comparators = {row.comparator for row in bounds}
    if not comparators:
        return ""
    if comparators <= {">", ">="}:
        return "at least"
    return "at most" if comparators <= {"<", "<="} else "not exact, about"


def _change_between_bounds(first: Row, last: Row, change: str) -> str:
    """The change where a value is a bound: at least that much, or not known."""
    if first.interval is None or last.interval is None:
        return change
    difference = last.interval.minus(first.interval)
    if difference.satisfies("greater", 0) or difference.satisfies("less", 0):
        is_open = math.inf in (abs(difference.low), abs(difference.high))
        return f"at least {change}" if is_open else change
    return "whether it rose or fell cannot be told"


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


def _disagree(rows: Sequence[Row]) -> bool:
    """Whether rows of two displays have different values at one time."""
    values: dict[object, set[float]] = defaultdict(set)
    displays: dict[object, set[str]] = defaultdict(set)
    for row in rows:
        values[row.time].add(_number(row))
        displays[row.time].add(row.name)
    return any(len(values[time]) > 1 and len(displays[time]) > 1 for time in values)


def _label_with_specimen(row: Row) -> str:
    """`Creatinine in Blood`, where the display alone tells two results apart."""
    return " ".join(_PROPERTY.sub(" ", row.name).split())


def _inside(label: str) -> str:
    """A label inside of a sentence: its first letter small unless it is an acronym."""
    if label[1:2].isupper() or label[1:2].isdigit():
        return label
    return label[:1].lower() + label[1:]


def _number(row: Row) -> float:
    return row.value or 0


NO_ANSWER = "no answer"


def format_agent_answer(result: QueryResult) -> str:
    """The value, or the list of values, and nothing else, as the gold answers of FHIR-AgentBench.

    Source: glee4810/FHIR-AgentBench at bbb4290, final_dataset: yes and no, numbers with up to 8
    decimals, times `2133-12-31 02:00:00`, several values as a list, "no answer" where there is none.
    """
    values = [value for value in result.answer.values if value is not None]
    if not values:
        return NO_ANSWER
    if len(values) == 1:
        return format_value(values[0])
    return json.dumps([_rounded(value) for value in values], ensure_ascii=False)


def format_value(value: Scalar) -> str:
    """One value as text: Yes, 70.3, 2133-12-31 02:00:00."""
    if value is None:
        return NO_ANSWER
    if value is True:
        return "Yes"
    if value is False:
        return "No"
    if isinstance(value, int | float):
        return f"{round(value, 8):.8f}".rstrip("0").rstrip(".")
    return value


def _rounded(value: Scalar) -> Scalar:
    if isinstance(value, float):
        return round(value, 8)
    return value
