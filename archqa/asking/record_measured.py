"""Results of a record as lines of an answer: name, value, unit, date, and the flag where asked."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archqa.asking.record_details import detail_texts
from archqa.asking.record_displays import clean_name
from archqa.asking.record_names import MEASURED, row_label
from archqa.asking.record_numbers import is_narrow, listed, number_text
from archqa.asking.record_statements import MAX_LINES, Statement
from archqa.asking.record_support import Support
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
