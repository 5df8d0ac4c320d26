"""The rows of one patient's record up to the time of a summary."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime

from archqa.asking.record_support import Support
from archqa.asking.record_words import clean_name, date_text, full_years
from archqa.fhir import Record, Resource
from archqa.fhir.values.references import parse_reference
from archqa.query import Chart, Query, execute
from archqa.query.conventions import CLINICAL, Conventions
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.execution.statuses import RowState, is_fact, row_state
from archqa.query.kinds import ReturnedField, RowKind

_CONVENTIONS = CLINICAL.model_copy(
    update={"convert_to_celsius": False, "include_icu_procedures": False}
)
"""As recorded: a converted number does not stand in the record that is cited."""


_HANDED_OVER = ("MedicationDispense/", "MedicationAdministration/")

_FULL_DATE = len("1971-08-28")

_OPENING, _CLOSING = "\ue000", "\ue001"
"""Characters of no meaning that stand for brackets while a name is cleaned."""


class PatientRows:
    """Reads a patient's rows by typed queries; what lies after `now` is left out."""

    def __init__(self, record: Record, patient_id: str, now: datetime) -> None:
        self.record = record
        self.patient_id = patient_id
        self.now = now.replace(tzinfo=None)
        self.support = Support(record)
        self.chart = Chart(record, patient_id)

    def rows(self, what: RowKind, returns: ReturnedField = "name") -> list[Row]:
        """Return the rows of a kind, oldest first. Raises as the record does."""
        return self._rows(what, returns, _CONVENTIONS)

    def denied_allergies(self) -> list[Row]:
        """Return the rows by which a record says that there is no allergy."""
        left_out = self._result("allergy", "name", _CONVENTIONS).left_out
        return [row for row in left_out if is_fact("allergy", row) and not self._is_later(row)]

    def icu_activities(self) -> int:
        """Return how many activities of an intensive care unit `rows` leaves out of procedures."""
        return len(self._rows("procedure", "name", CLINICAL)) - len(self.rows("procedure"))

    def _rows(self, what: RowKind, returns: ReturnedField, conventions: Conventions) -> list[Row]:
        chosen = self._result(what, returns, conventions).chosen
        return [row for row in chosen if not self._is_later(row)]

    def _result(
        self, what: RowKind, returns: ReturnedField, conventions: Conventions
    ) -> QueryResult:
        query = Query(what=what, returns=returns, now=self.now.isoformat(timespec="seconds"))
        return execute(query, self.record, self.patient_id, conventions, chart=self.chart)

    def state(self, what: RowKind, row: Row) -> RowState:
        """Return whether a row is current or has ended."""
        return row_state(what, row, self.now)

    def date(self, row: Row) -> str:
        """Return the date of a row, as precise as the record; empty without one."""
        return self.support.date(row, row.time)

    def since(self, row: Row) -> str:
        """Return since when a condition is, or when it was recorded where its onset is unknown."""
        date = self.date(row)
        if not date:
            return "date not recorded"
        has_onset = any(name.startswith("onset") for name in self.resource(row))
        return f"since {date}" if has_onset else f"recorded {date}"

    def end_date(self, row: Row) -> str:
        """Return the date of its end; empty without one, or if it is the day of its start."""
        if row.end is None or (row.time and row.time.date() == row.end.date()):
            return ""
        return self.support.date(row, row.end)

    def resource(self, row: Row) -> Resource:
        """Return the resource that holds a row; an empty one if the record lacks it."""
        return self.read(row.refs[0])

    def read(self, reference: str) -> Resource:
        """Return a resource by `Type/id`; an empty one if the record lacks it."""
        return self.support.read(*reference.split("/", 1)) or {}

    def age_at(self, time: datetime | None) -> int | None:
        """Return the age in full years at a time; None where the date of birth is not recorded."""
        born = str(self.read(f"Patient/{self.patient_id}").get("birthDate") or "")
        birth = parse_datetime(born) if len(born) == _FULL_DATE else None
        return full_years(birth.date(), time.date()) if birth and time else None

    def visit(self, reference: str) -> Resource:
        """Return the Encounter of a reference; an empty one if the record lacks it."""
        target = parse_reference(reference)
        return self.read(f"Encounter/{target.id}") if target else {}

    def _is_later(self, row: Row) -> bool:
        return row.local_time is not None and row.local_time > self.now


def groups_of(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> list[list[Row]]:
    """Return the rows of each key, in the order of the first row of each."""
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def without_closed(
    patient: PatientRows,
    what: RowKind,
    rows: Iterable[Row],
    key: Callable[[Row], Hashable] | None = None,
) -> list[Row]:
    """Return the rows that have not ended, and that no later row of the same thing closes.

    A medicine that was handed over ends no order.
    """
    kept: list[Row] = []
    for group in groups_of(rows, key or code_key):
        ended = [row for row in group if patient.state(what, row) == "ended"]
        closing = [row for row in ended if not row.refs[0].startswith(_HANDED_OVER)]
        last = max((row.local_time for row in closing if row.local_time), default=None)
        kept += [row for row in group if row not in ended and not _is_before(row, last)]
    return kept


def _is_before(row: Row, time: datetime | None) -> bool:
    return time is not None and row.local_time is not None and row.local_time < time


def one_a_day(rows: Iterable[Row]) -> list[Row]:
    """Return the last row of each day; those without a date stay."""
    rows = list(rows)
    days = [date_text(row.time) if row.time else f"none {i}" for i, row in enumerate(rows)]
    return list(dict(zip(days, rows, strict=True)).values())


def is_older(rows: Sequence[Row], year: int) -> bool:
    """Whether all rows are dated before a year."""
    last = last_day(rows)
    return bool(last) and last < f"{year:04}"


def code_key(row: Row) -> Hashable:
    """Return what rows of one thing share: the first code with its system, else the name."""
    for coding in row.codings:
        if coding.code:
            return coding.system, coding.code
    return clean_name(row.name).casefold()


def whole_name(name: str) -> str:
    """Return a display as people read it, with what it has in brackets: `[HIV]`, a brand.

    Only names of results have a property of LOINC there, which says nothing to people.
    """
    shielded = name.replace("[", _OPENING).replace("]", _CLOSING)
    return clean_name(shielded).replace(_OPENING, "[").replace(_CLOSING, "]")


def last_day(rows: Sequence[Row]) -> str:
    """Return the last date of rows, to sort by; empty if none has one."""
    return max((date_text(row.time) for row in rows if row.time), default="")
