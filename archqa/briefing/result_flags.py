"""Whether a result is high, low or normal: only where its range has the unit of its value."""

import re

from archqa.asking.record_lines import flag_text, unit_text
from archqa.briefing.patient_rows import PatientRows
from archqa.query.execution.elements import objects_at
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import reference_range

_ABNORMAL = {"high", "low", "abnormal", "positive"}
_SAME_LETTERS = str.maketrans({"µ": "u", "μ": "u"})
_MARKS = re.compile(r"[\s*^\[\]]")


def shown_flags(patient: PatientRows, row: Row) -> str:
    """Return the flag and the reference range; where their units differ, the range alone."""
    text = flag_text(row)
    if _has_unit_of_range(patient, row):
        return text
    return ", ".join(part for part in text.split(", ") if part.startswith("reference range"))


def _flags_of(patient: PatientRows, row: Row) -> tuple[str, ...]:
    """Return the flags that count: none where value and range have different units."""
    return row.facts.get("flag", ()) if _has_unit_of_range(patient, row) else ()


def flag_rank(patient: PatientRows, row: Row) -> int:
    """Return 0 for an abnormal result, 1 for one without a flag, 2 for a normal one."""
    flags = _flags_of(patient, row)
    if not _ABNORMAL.isdisjoint(flags):
        return 0
    return 2 if flags else 1


def _has_unit_of_range(patient: PatientRows, row: Row) -> bool:
    """Whether value and reference range have one unit, or one of them none."""
    units = {_plain(unit) for unit in _range_units(patient, row)}
    return not row.unit or not units or _plain(row.unit) in units


def _range_units(patient: PatientRows, row: Row) -> list[str]:
    """The units of the ranges of the resource, or of the component that the row is."""
    resource = patient.resource(row)
    results = [resource, *objects_at(resource, "component")]
    ranges = [reference_range(result) for result in results]
    shown = row.facts.get("reference_range", ())
    return [each.unit for each in ranges if each and each.unit and each.text in shown]


def _plain(unit: str) -> str:
    return _MARKS.sub("", unit_text(unit).casefold().translate(_SAME_LETTERS))
