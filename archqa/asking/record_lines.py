"""Rows of a record as lines of an answer: name, dose, date, status and what else was asked."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from archqa.asking.record_details import (
    MAX_LINES,
    Statement,
    detail_texts,
    latest_first,
    status_text,
)
from archqa.asking.record_support import Support
from archqa.asking.record_words import (
    DRUGS,
    ENDED,
    MEASURED,
    STAYS,
    clean_name,
    denies,
    is_narrow,
    listed,
    number_text,
    row_label,
    row_status,
    row_words,
    sentence_case,
)
from archqa.query.execution.rows import Row
from archqa.query.model import Query

_MAX_DATES = 8
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


def measured_statements(query: Query, rows: Sequence[Row], support: Support) -> list[Statement]:
    """Return a statement for each value, oldest first; the parts of a blood pressure together.

    A result in words that repeats is one statement with its dates. `rows` come oldest first.
    """
    readings = _paired(_distinct(query, rows))
    crowded = _crowded_days(readings)
    statements = []
    groups = _grouped(readings)
    if len(groups) > MAX_LINES and len({group[0].label for group in groups}) > 1:
        return [_latest_of(query, label_groups, support) for label_groups in _by_label(groups)]
    for group in groups:
        with_clock = is_narrow(query.when) or any(_day(reading) in crowded for reading in group)
        statements.append(_statement(query, group, support, with_clock=with_clock))
    return statements


def is_series(query: Query, rows: Sequence[Row]) -> bool:
    """Whether rows are results of one thing, such as a blood pressure with both its parts."""
    if query.what not in MEASURED:
        return False
    return len({_PRESSURE.sub("", row_label(query, row)).strip().casefold() for row in rows}) <= 1


def value_text(row: Row) -> str:
    """Return a value with its unit, `6.4 %`, a result in words, or what grew; else nothing."""
    if row.value is None:
        organisms = [name for name in row.facts.get("organism", ()) if name != row.name]
        return clean_name(row.text) or ", ".join(organisms)
    return f"{row.comparator}{number_text(row.value)} {unit_text(row.unit)}".strip()


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
    flags = row.facts.get("flag", ())
    ranges = [
        f"reference range {_range_text(text)}" for text in row.facts.get("reference_range", ())
    ]
    return ", ".join([*flags, *ranges])


def _range_text(text: str) -> str:
    """A reference range with its unit as people write it."""
    bounds, _, unit = text.rpartition(" ")
    return f"{bounds} {unit_text(unit)}".strip() if bounds else text


def _distinct(query: Query, rows: Sequence[Row]) -> list[_Reading]:
    """The readings; the same value at the same time, recorded twice, is one."""
    groups: dict[tuple[str, str, object], list[Row]] = {}
    for row in rows:
        label = row_label(query, row)
        groups.setdefault((label, value_text(row), row.time), []).append(row)
    return [_Reading(label, value, tuple(group)) for (label, value, _), group in groups.items()]


def _paired(readings: Sequence[_Reading]) -> list[_Reading]:
    """The readings, with systolic and diastolic pressure of one time and place as one."""
    diastolic: dict[tuple[str, object], _Reading] = {}
    for reading in readings:
        if _pressure_part(reading) == "diastolic":
            diastolic.setdefault(_pressure_key(reading), reading)
    pairs = []
    used = set()
    for reading in readings:
        if _pressure_part(reading) == "systolic":
            other = diastolic.get(_pressure_key(reading))
            if other is not None and id(other) not in used:
                used.add(id(other))
                reading = _pair(reading, other)
        pairs.append(reading)
    return [reading for reading in pairs if id(reading) not in used]


def _pressure_part(reading: _Reading) -> str:
    match = _PRESSURE.search(reading.label)
    is_number = reading.rows[0].value is not None
    return match[1].lower() if match and is_number else ""


def _pressure_key(reading: _Reading) -> tuple[str, object]:
    site = _PRESSURE.sub("", reading.label).strip().casefold()
    return site, reading.rows[0].time


def _pair(systolic: _Reading, diastolic: _Reading) -> _Reading:
    site = _PRESSURE.sub("", systolic.label).strip()
    top, bottom = systolic.rows[0], diastolic.rows[0]
    value = f"{number_text(top.value or 0)}/{number_text(bottom.value or 0)}"
    label = site[:1].upper() + site[1:]
    text = f"{value} {unit_text(top.unit)}".strip()
    return _Reading(label, text, (*systolic.rows, *diastolic.rows))


def _crowded_days(readings: Iterable[_Reading]) -> set[tuple[str, str]]:
    """Days on which a thing was measured more than once: then the time of day tells them apart."""
    counts = Counter(_day(reading) for reading in readings)
    return {day for day, count in counts.items() if count > 1}


def _day(reading: _Reading) -> tuple[str, str]:
    time = reading.rows[0].time
    return reading.label, time.date().isoformat() if time else ""


def _grouped(readings: Sequence[_Reading]) -> list[list[_Reading]]:
    """The readings one by one; results in words that repeat together, at their latest place."""
    groups: dict[tuple[str, str, int], list[_Reading]] = {}
    for number, reading in enumerate(readings):
        in_words = reading.rows[0].value is None
        key = (reading.label, reading.value, -1 if in_words else number)
        groups[key] = [*groups.pop(key, []), reading]
    return list(groups.values())


def _statement(
    query: Query, group: Sequence[_Reading], support: Support, *, with_clock: bool
) -> Statement:
    first = group[0]
    rows = tuple(row for reading in reversed(group) for row in reading.rows)
    dates = [
        support.date(reading.rows[0], reading.rows[0].time, with_clock=with_clock)
        for reading in group
    ]
    text = f"{_label_and_value(first)}{_dates_text([date for date in dates if date])}"
    remarks = [converted_text(first.rows[0], support)]
    if query.flag or query.returns == "flag":
        remarks.insert(0, _flags_of(first) or _NO_FLAG)
    remark = "; ".join(remark for remark in remarks if remark)
    details = detail_texts(query, first.rows[0], is_single=len(group) == 1)
    text = ", ".join([text, *details])
    return Statement(f"{text} ({remark})" if remark else text, rows)


def _by_label(groups: Iterable[list[_Reading]]) -> list[list[list[_Reading]]]:
    """The groups of each label, those of the label with the latest reading last."""
    labels: dict[str, list[list[_Reading]]] = {}
    for group in groups:
        label = group[0].label
        labels[label] = [*labels.pop(label, []), group]
    return list(labels.values())


def _latest_of(query: Query, groups: Sequence[list[_Reading]], support: Support) -> Statement:
    """The latest reading of a label, and how many earlier ones there are."""
    latest = groups[-1][-1]
    statement = _statement(query, [latest], support, with_clock=is_narrow(query.when))
    earlier = [reading for group in groups for reading in group if reading is not latest]
    if not earlier:
        return statement
    rows = (*statement.rows, *(row for reading in earlier for row in reading.rows))
    return Statement(f"{statement.text}, and {len(earlier)} earlier", rows)


def _flags_of(reading: _Reading) -> str:
    """The flags of the parts of a reading; of a blood pressure, which part has which."""
    parts = {row.name.casefold(): row for row in reading.rows if flag_text(row)}
    texts = []
    for name, row in parts.items():
        pressure = _PRESSURE.search(name)
        part = f"{pressure[1]} " if pressure and "/" in reading.value else ""
        texts.append(f"{part}{flag_text(row)}")
    return "; ".join(dict.fromkeys(texts))


def _label_and_value(reading: _Reading) -> str:
    if not reading.value:
        is_organism = reading.rows[0].name in reading.rows[0].facts.get("organism", ())
        return reading.label if is_organism else f"{reading.label}: no result recorded"
    if reading.rows[0].value is None:
        return f"{reading.label}: {reading.value}"
    return f"{reading.label} {reading.value}"


def _dates_text(dates: list[str]) -> str:
    if not dates:
        return ", date not recorded"
    earlier = len(dates) - _MAX_DATES
    if earlier <= 0:
        return f" on {listed(dates)}"
    return f" on {', '.join(dates[-_MAX_DATES:])} and {earlier} earlier times"


_DOSAGE = frozenset({"dose", "frequency"})
_QUANTITIES = {"supply": "quantity ", "immunization": "dose "}
_MANY_DRUGS = 5
"""With more lines than these, the orders of one drug are one line, whatever their doses."""

MAX_DATES = 8
"""Dates of one thing that are written out; earlier ones are counted."""


def row_statements(query: Query, rows: Sequence[Row], support: Support) -> list[Statement]:
    """Return a statement for each thing: results oldest first, all else newest first.

    The same thing several times is one statement with its dates. `rows` come oldest first.
    """
    if query.what in MEASURED:
        return measured_statements(query, rows, support)
    writer = _Writer(query, support, is_single=len(rows) == 1)
    groups = _grouped_by_heading(writer, rows)
    if query.what in DRUGS and query.returns == "name" and len(groups) > _MANY_DRUGS:
        writer = _Writer(query, support, is_single=False, is_brief=True)
        groups = _grouped_by_heading(writer, rows)
    return [writer.statement(heading, group) for heading, group in groups.items()]


def _grouped_by_heading(writer: "_Writer", rows: Sequence[Row]) -> dict["_Heading", list[Row]]:
    """The rows of each line, newest first."""
    groups: dict[_Heading, list[Row]] = {}
    for number, row in enumerate(latest_first(rows)):
        groups.setdefault(writer.heading(row, number), []).append(row)
    return groups


class _Heading(NamedTuple):
    """What rows of one line share. `number` keeps visits apart, which are one line each."""

    name: str
    details: tuple[str, ...]
    status: str
    number: int


class _Writer:
    """Writes the rows of one query."""

    def __init__(
        self, query: Query, support: Support, *, is_single: bool, is_brief: bool = False
    ) -> None:
        self._query = query
        self._support = support
        self._is_single = is_single
        self._is_brief = is_brief
        self._dated = row_words(query.what).dated
        self._with_clock = is_narrow(query.when)

    def heading(self, row: Row, number: int) -> _Heading:
        """Return what a row shares with others of its line."""
        if self._is_brief:
            return _Heading(self._name(row), (), "", -1)
        details = detail_texts(self._query, row, is_single=self._is_single)
        status = status_text(self._query, row)
        is_alone = self._query.what in STAYS
        return _Heading(self._name(row), tuple(details), status, number if is_alone else -1)

    def statement(self, heading: _Heading, rows: Sequence[Row]) -> Statement:
        """Return the line of rows, which come newest first."""
        status = heading.status
        if self._is_brief:
            statuses = dict.fromkeys(status_text(self._query, row) for row in rows)
            status = ", earlier ".join(filter(None, statuses))
        if len(rows) == 1:
            head = _joined(heading.name, self._date(rows[0]))
            status = "" if self._tells_status(rows[0]) else status
        else:
            head = self._group_head(heading.name, rows)
        text = ", ".join([head, *heading.details])
        return Statement(f"{text} ({status})" if status else text, tuple(rows))

    def _name(self, row: Row) -> str:
        words = row_words(self._query.what)
        name = clean_name(row.name)
        if not name:
            name = sentence_case(f"{words.singular} without a name")
        elif not denies(name) and words.lead.split()[0].lower() not in name.lower():
            name = words.lead.format(name)
        if self._query.what in DRUGS:
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

    def _group_head(self, name: str, rows: Sequence[Row]) -> str:
        """The name and the dates; of the same date once."""
        oldest_first = list(reversed(rows))
        dates = list(dict.fromkeys(self._short_date(row) for row in oldest_first if row.time))
        if self._query.what == "administration" and len(dates) > MAX_DATES:
            return f"{name}, given {len(rows)} times from {dates[0]} to {dates[-1]}"
        text = _latest_dates_text(dates)
        if not text:
            return f"{name}, {len(rows)} entries, dates not recorded"
        if self._dated in {"on", "since"}:
            return f"{name}: {text}"
        return f"{name}, {self._dated} {text}"

    def _short_date(self, row: Row) -> str:
        start, end = self._start(row), self._end(row)
        return f"{start} to {end}" if end else start

    def _date(self, row: Row) -> str:
        start, end = self._start(row), self._end(row)
        if not start:
            return f"until {end}" if end else "date not recorded"
        if self._dated == "since":
            return self._since(row, start, end)
        if self._dated == "on":
            return f"from {start} to {end}" if end else f"on {start}"
        return f"{self._dated} {start}, until {end}" if end else f"{self._dated} {start}"

    def _since(self, row: Row, start: str, end: str) -> str:
        status = row_status(row)
        if end:
            return f"from {start}, {status} {end}" if status in ENDED else f"{start} to {end}"
        if not status:
            return f"recorded {start}"
        return f"from {start}" if status in ENDED else f"since {start}"

    def _tells_status(self, row: Row) -> bool:
        """Whether the date of a row says its status, as in "resolved 2020-10-21"."""
        return self._dated == "since" and bool(self._end(row)) and row_status(row) in ENDED

    def _start(self, row: Row) -> str:
        return self._support.date(row, row.time, with_clock=self._with_clock)

    def _end(self, row: Row) -> str:
        """The end, if it is another day than the start."""
        if row.end is None or (row.time and row.time.date() == row.end.date()):
            return ""
        return self._support.date(row, row.end, with_clock=self._with_clock)


def _joined(name: str, date: str) -> str:
    if date.startswith(("on ", "from ")):
        return f"{name} {date}"
    return f"{name}, {date}"


def _latest_dates_text(dates: list[str]) -> str:
    """The latest dates, oldest first, and how many there were earlier."""
    if len(dates) <= MAX_DATES:
        return listed(dates)
    earlier = len(dates) - MAX_DATES
    rest = f"{earlier} earlier, the first on {dates[0]}"
    if earlier == 1:
        rest = f"earlier on {dates[0]}"
    return f"{', '.join(dates[-MAX_DATES:])} and {rest}"
