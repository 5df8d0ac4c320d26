"""Rows of a record as lines of an answer: name, dose, date, status and what else was asked."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.query.execution.rows import Row
from archqa.query.model import Query
from archqa.query.wording.details import (
    MAX_LINES,
    Statement,
    detail_texts,
    latest_first,
    status_text,
    strength_text,
)
from archqa.query.wording.support import Support
from archqa.query.wording.words import (
    DRUGS,
    ENDED,
    MEASURED,
    STAYS,
    clean_name,
    dated_word,
    denies,
    is_narrow,
    listed,
    number_text,
    row_label,
    row_status,
    row_words,
    sentence_case,
)

MAX_DATES = 8
"""Dates of one thing that are written out; earlier ones are counted."""

_WITH_ONSET = frozenset({"diagnosis", "allergy"})
_DOSAGE = frozenset({"dose", "frequency"})
_QUANTITIES = {"supply": "quantity ", "immunization": "dose "}
_MANY_DRUGS = 5
"""With more lines than these, the orders of one drug are one line, whatever their doses."""

_PRESSURE = re.compile(r"\b(systolic|diastolic)\b\W*", re.IGNORECASE)
_UNITS = {
    "mm[Hg]": "mmHg",
    "Cel": "°C",
    "[degF]": "°F",
    "[lb_av]": "lb",
    "[in_i]": "in",
    "1": "",
    "10*3/uL": "10^3/µL",
    "10*6/uL": "10^6/µL",
}
_NO_FLAG = "whether it is normal is not recorded: no interpretation, no reference range"
_ANNOTATION = re.compile(r"\{[^}]*\}")
"""A UCUM annotation, {score}: it is no unit (ucum.org, section 6)."""


class _Reading(NamedTuple):
    """One value at one time; `rows` are all rows that record it."""

    label: str
    value: str
    rows: tuple[Row, ...]

    @property
    def day(self) -> tuple[str, str]:
        """What was measured, and on which day."""
        time = self.rows[0].time
        return self.label, time.date().isoformat() if time else ""

    @property
    def text(self) -> str:
        """The label and the value."""
        row = self.rows[0]
        if not self.value:
            is_organism = row.name in row.facts.get("organism", ())
            return self.label if is_organism else f"{self.label}: no result recorded"
        separator = ":" if row.value is None else ""
        return f"{self.label}{separator} {self.value}"


def measured_statements(
    query: Query, rows: Sequence[Row], support: Support, max_lines: int = MAX_LINES
) -> list[Statement]:
    """Return a statement for each value, oldest first; the parts of a blood pressure together.

    The same value at the same time, recorded twice, is one; a result in words that repeats is one
    statement with its dates. `rows` come oldest first. Of more than `max_lines` with several labels,
    there is one statement for each label.
    """
    rows_of: dict[tuple[str, str, object], list[Row]] = {}
    for row in rows:
        rows_of.setdefault(
            (row_label(query, row), value_text(row), row.time), []
        ).append(row)
    readings = []
    for (label, value, _), same in rows_of.items():
        readings.append(_Reading(label, value, tuple(same)))
    readings = _with_pairs(readings)
    # Results in words that repeat stand together, at their latest place.
    groups: dict[tuple[str, str, int], list[_Reading]] = {}
    for number, reading in enumerate(readings):
        is_number = reading.rows[0].value is not None
        key = (reading.label, reading.value, number if is_number else -1)
        groups[key] = [*groups.pop(key, []), reading]
    by_label: dict[str, list[_Reading]] = {}
    for (label, *_), group in groups.items():
        by_label[label] = [*by_label.pop(label, []), *group]
    if len(groups) > max_lines and len(by_label) > 1:
        return [
            _latest_of(query, label_readings, support)
            for label_readings in by_label.values()
        ]
    # Where a thing was measured twice on a day, the time of day tells the values apart.
    counts = Counter(reading.day for reading in readings)
    statements = []
    for group in groups.values():
        with_clock = is_narrow(query.when) or any(
            counts[reading.day] > 1 for reading in group
        )
        statements.append(
            _measured_statement(query, group, support, with_clock=with_clock)
        )
    return statements


def is_series(query: Query, rows: Sequence[Row]) -> bool:
    """Whether rows are results of one thing, such as a blood pressure with both its parts."""
    if query.what not in MEASURED:
        return False
    return (
        len({_without_pressure_part(row_label(query, row)).casefold() for row in rows})
        <= 1
    )


def value_text(row: Row) -> str:
    """Return a value with its unit, `6.4 %`, a result in words, or what grew; else nothing."""
    number = "" if row.value is None else number_text(row.value)
    if row.text and number in row.text and "recorded_value" not in row.facts:
        return clean_name(row.text)
    if number:
        sign = row.comparator + " " * row.comparator.isalpha()
        return f"{sign}{number} {unit_text(row.unit)}".strip()
    return ", ".join(name for name in row.facts.get("organism", ()) if name != row.name)


def unit_text(unit: str) -> str:
    """Return a unit as people write it: mmHg for mm[Hg]."""
    unit = _ANNOTATION.sub("", unit).strip().rstrip("/")
    return _UNITS.get(unit, unit)


def converted_text(row: Row, support: Support) -> str:
    """Return `converted from 170 lb` for a value in another unit than the recorded one."""
    recorded = support.recorded_value(row)
    return f"converted from {recorded}" if recorded else ""


def flag_text(row: Row) -> str:
    """Return the flag and the reference range: `high, reference range 70-100 mg/dL`."""
    texts = list(row.facts.get("flag", ()))
    for reference_range in row.facts.get("reference_range", ()):
        bounds, _, unit = reference_range.rpartition(" ")
        text = f"{bounds} {unit_text(unit)}".strip() if bounds else reference_range
        texts.append(f"reference range {text}")
    return ", ".join(texts)


def _without_pressure_part(label: str) -> str:
    return _PRESSURE.sub("", label).strip()


def _with_pairs(readings: Sequence[_Reading]) -> list[_Reading]:
    """The readings, with systolic and diastolic pressure of one time and place as one."""
    diastolic: dict[tuple[str, datetime | None], _Reading] = {}
    systolic: list[tuple[tuple[str, datetime | None], _Reading]] = []
    for reading in readings:
        part = _PRESSURE.search(reading.label)
        row = reading.rows[0]
        if part is None or row.value is None:
            continue
        key = (_without_pressure_part(reading.label).casefold(), row.time)
        if part[1].lower() == "diastolic":
            diastolic.setdefault(key, reading)
        else:
            systolic.append((key, reading))
    paired: dict[int, _Reading | None] = {}
    for key, reading in systolic:
        if key not in diastolic:
            continue
        lower = diastolic.pop(key)
        row, lower_row = reading.rows[0], lower.rows[0]
        label = _without_pressure_part(reading.label)
        value = f"{number_text(row.value or 0)}/{number_text(lower_row.value or 0)}"
        paired[id(lower)] = None
        paired[id(reading)] = _Reading(
            label=label[:1].upper() + label[1:],
            value=f"{value} {unit_text(row.unit)}".strip(),
            rows=(*reading.rows, *lower.rows),
        )
    resulting = []
    for reading in readings:
        pair = paired.get(id(reading), reading)
        if pair is not None:
            resulting.append(pair)
    return resulting


def _measured_statement(
    query: Query, group: Sequence[_Reading], support: Support, *, with_clock: bool
) -> Statement:
    """The line of one value, or of a result in words with all its dates."""
    first = group[0]
    dates = []
    rows: list[Row] = []
    for reading in group:
        row = reading.rows[0]
        if date := support.date(row, row.time, with_clock=with_clock):
            dates.append(date)
        rows[:0] = reading.rows
    text = first.text
    earlier = len(dates) - MAX_DATES
    if not dates:
        text += ", date not recorded"
    elif earlier <= 0:
        text += f" on {listed(dates)}"
    else:
        text += f" on {', '.join(dates[-MAX_DATES:])} and {earlier} earlier times"
    remarks = []
    if query.flag or query.returns == "flag":
        remarks.append(_flags_of(first) or _NO_FLAG)
    if converted := converted_text(first.rows[0], support):
        remarks.append(converted)
    details = detail_texts(query, first.rows[0], is_single=len(group) == 1)
    text = ", ".join([text, *details])
    return Statement(f"{text} ({'; '.join(remarks)})" if remarks else text, tuple(rows))


def _latest_of(
    query: Query, readings: Sequence[_Reading], support: Support
) -> Statement:
    """The latest reading of a label, and how many earlier ones there are."""
    *earlier, latest = readings
    text, rows = _measured_statement(
        query, [latest], support, with_clock=is_narrow(query.when)
    )
    if not earlier:
        return Statement(text, rows)
    for reading in earlier:
        rows += reading.rows
    return Statement(f"{text}, and {len(earlier)} earlier", rows)


def _flags_of(reading: _Reading) -> str:
    """The flags of the parts of a reading; of a blood pressure, which part has which."""
    flags: dict[str, str] = {}
    for row in reading.rows:
        if flag := flag_text(row):
            pressure = _PRESSURE.search(row.name)
            is_part = pressure is not None and "/" in reading.value
            part = f"{pressure[1].lower()} " if pressure is not None and is_part else ""
            flags[row.name.casefold()] = f"{part}{flag}"
    return "; ".join(dict.fromkeys(flags.values()))


def row_statements(
    query: Query, rows: Sequence[Row], support: Support, max_lines: int = MAX_LINES
) -> list[Statement]:
    """Return a statement for each thing: results oldest first, all else newest first.

    The same thing several times is one statement with its dates. `rows` come oldest first.
    """
    if query.what in MEASURED:
        return measured_statements(query, rows, support, max_lines)
    writer = _Writer(query, support, is_single=len(rows) == 1)
    statements = writer.statements(rows)
    if (
        query.what in DRUGS
        and query.returns == "name"
        and len(statements) > _MANY_DRUGS
    ):
        return _Writer(query, support, is_single=False, is_brief=True).statements(rows)
    return statements


class _Heading(NamedTuple):
    """What rows of one line share. `number` keeps visits apart, which are one line each."""

    name: str
    dated: str
    details: tuple[str, ...] = ()
    status: str = ""
    number: int = -1


class _Writer:
    """Writes the rows of one query."""

    def __init__(
        self, query: Query, support: Support, *, is_single: bool, is_brief: bool = False
    ) -> None:
        self._query = query
        self._support = support
        self._is_single = is_single
        self._is_brief = is_brief
        self._words = row_words(query.what)
        self._with_clock = is_narrow(query.when)

    def statements(self, rows: Sequence[Row]) -> list[Statement]:
        """Return a line for each thing, newest first."""
        groups: dict[_Heading, list[Row]] = {}
        for number, row in enumerate(latest_first(rows)):
            groups.setdefault(self._heading(row, number), []).append(row)
        return [self._statement(heading, group) for heading, group in groups.items()]

    def _heading(self, row: Row, number: int) -> _Heading:
        dated = dated_word(self._query.what, row)
        if self._is_brief:
            return _Heading(self._name(row), dated)
        return _Heading(
            name=self._name(row),
            dated=dated,
            details=tuple(detail_texts(self._query, row, is_single=self._is_single)),
            status=status_text(self._query, row),
            number=number if self._query.what in STAYS else -1,
        )

    def _statement(self, heading: _Heading, rows: Sequence[Row]) -> Statement:
        """The line of rows, which come newest first."""
        status = heading.status
        if self._is_brief:
            statuses = dict.fromkeys(status_text(self._query, row) for row in rows)
            status = ", earlier ".join(filter(None, statuses))
        if len(rows) == 1:
            head = f"{heading.name}{self._date(rows[0])}"
            # The date of a row may say its status, as in "resolved 2020-10-21".
            if (
                self._words.dated == "since"
                and self._end(rows[0])
                and row_status(rows[0]) in ENDED
            ):
                status = ""
        else:
            head = self._group_head(heading, rows)
        text = ", ".join([head, *heading.details])
        return Statement(f"{text} ({status})" if status else text, tuple(rows))

    def _name(self, row: Row) -> str:
        words = self._words
        name = clean_name(row.name)
        if not name:
            name = sentence_case(f"{words.singular} without a name")
        elif not denies(name) and words.lead.split()[0].lower() not in name.lower():
            name = words.lead.format(name)
        if self._query.what in DRUGS:
            name = f"{name} {strength_text(row)}".rstrip()
            return name if self._is_brief else ", ".join([name, *self._dosage(row)])
        value = row.text
        if row.value is not None:
            value = f"{number_text(row.value)} {row.unit}".strip()
        if not value or self._query.what == "device":
            return name
        return f"{name}, {_QUANTITIES.get(self._query.what, '')}{clean_name(value)}"

    def _dosage(self, row: Row) -> Iterator[str]:
        """Dose and frequency; a dose without a unit only if it was asked for.

        The dose of a mixture is that of the order, not of each drug in it.
        """
        if row.ingredient_count > 1:
            yield "in a mixture"
            if self._query.returns != "dose":
                return
        if row.value is not None and (row.unit or self._query.returns in _DOSAGE):
            unit = row.unit or "(unit not recorded)"
            yield f"dose {number_text(row.value)} {unit}"
        yield from row.facts.get("frequency", ())

    def _group_head(self, heading: _Heading, rows: Sequence[Row]) -> str:
        """The name and the latest dates, oldest first, each once."""
        name = heading.name
        texts = []
        for row in reversed(rows):
            if row.time:
                start, end = self._start(row), self._end(row)
                texts.append(f"{start} to {end}" if end else start)
        dates = list(dict.fromkeys(texts))
        earlier = len(dates) - MAX_DATES
        if not dates:
            return f"{name}, {len(rows)} entries, dates not recorded"
        if earlier > 0 and self._query.what == "administration":
            return f"{name}, given {len(rows)} times from {dates[0]} to {dates[-1]}"
        text = listed(dates)
        if earlier == 1:
            text = f"{', '.join(dates[1:])} and earlier on {dates[0]}"
        elif earlier > 1:
            latest = ", ".join(dates[-MAX_DATES:])
            text = f"{latest} and {earlier} earlier, the first on {dates[0]}"
        if self._words.dated in {"on", "since"}:
            return f"{name}: {text}"
        return f"{name}, {heading.dated} {text}"

    def _date(self, row: Row) -> str:
        """The date as it follows the name: ` on 2026-04-28`, `, date not recorded`."""
        if text := self._time_in_words(row):
            return text
        start, end = self._start(row), self._end(row)
        dated = dated_word(self._query.what, row)
        if not start:
            return f", until {end}" if end else ", date not recorded"
        if dated == "on":
            return f" from {start} to {end}" if end else f" on {start}"
        if dated != "since":
            return f", {dated} {start}, until {end}" if end else f", {dated} {start}"
        status = row_status(row)
        if end:
            return (
                f" from {start}, {status} {end}"
                if status in ENDED
                else f", {start} to {end}"
            )
        if not status:
            return f", recorded {start}"
        return f" from {start}" if status in ENDED else f", since {start}"

    def _time_in_words(self, row: Row) -> str:
        """`, onset at the age of 9 years`, `, recorded 2024-08-05`; empty where a date says when."""
        texts = [f"at the age of {age}" for age in row.facts.get("age_at_time", ())]
        texts += row.facts.get("time_text", ())
        lead = "onset " if self._query.what in _WITH_ONSET else ""
        text = f", {lead}{'; '.join(texts)}" if texts else ""
        recorded = self._start(row)
        for basis in row.facts.get("dated_by", ()) if recorded else ():
            word = "recorded" if basis == "recording" else "at the visit of"
            text = f"{text}, {word} {recorded}"
        if not text:
            return ""
        ends = row.facts.get("end_text", ())
        if end := self._end(row) or "; ".join(ends):
            status = row_status(row)
            text = f"{text}, {status if status in ENDED else 'until'} {end}"
        return text

    def _start(self, row: Row) -> str:
        return self._support.date(row, row.time, with_clock=self._with_clock)

    def _end(self, row: Row) -> str:
        """The end, if it is asked for or another day than the start."""
        is_same_day = row.time and row.end and row.time.date() == row.end.date()
        if row.end is None or (is_same_day and self._query.returns != "end_time"):
            return ""
        return self._support.date(row, row.end, with_clock=self._with_clock)
