"""The rows of one patient's record up to the time of a summary, and the lines made of them."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.fhir import Record, Resource
from archqa.fhir.values.references import parse_reference
from archqa.query import Chart, Query, execute
from archqa.query.conventions import CLINICAL, Conventions
from archqa.query.execution.findings import Gap, QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import is_fact
from archqa.query.kinds import ReturnedField, RowKind
from archqa.query.wording.details import references
from archqa.query.wording.parts import PartWriter
from archqa.query.wording.rows import row_statements
from archqa.query.wording.support import Support
from archqa.query.wording.words import MEASURED, clean_name, date_text

ROSE, FELL = "rose from", "fell from"
"""Of a value, before the one it had."""

MAX_LISTED = 5
"""Names that a line lists; of more, it says how many there are."""

_CONVENTIONS = CLINICAL.model_copy(
    update={"convert_to_celsius": False, "include_icu_procedures": False}
)
"""As recorded: a converted number does not stand in the record that is cited."""

_OPENING, _CLOSING = "\ue000", "\ue001"
"""Characters of no meaning that stand for brackets while a name is cleaned."""


class LineDraft(NamedTuple):
    """A line that has not been checked yet: its text, its evidence, and the rows it was made of.

    A minor line is true and of no use at most visits: only its section alone shows it.
    """

    text: str
    citations: tuple[str, ...]
    date: str = ""
    rows: tuple[Row, ...] = ()
    is_minor: bool = False

    def with_remark(self, remark: str) -> "LineDraft":
        """Return the line with a remark in brackets."""
        return self._replace(text=f"{self.text} ({remark})")


class SectionDraft(NamedTuple):
    """The lines of a section, those that matter most first.

    `message` says what the lines are; without lines, what there is in place of them. Only a section
    without both says that nothing is recorded.
    """

    lines: tuple[LineDraft, ...] = ()
    message: str = ""


class PatientRows:
    """Reads a patient's rows by typed queries; what lies after `now` is left out."""

    def __init__(self, record: Record, patient_id: str, now: datetime) -> None:
        self.record = record
        self.patient_id = patient_id
        self.now = now.replace(tzinfo=None)
        self.support = Support(record)
        self.chart = Chart(record, patient_id)
        self.gaps: dict[Gap, None] = {}
        """What could not be read for the section that is being written."""

    def rows(
        self,
        what: RowKind,
        returns: ReturnedField = "name",
        conventions: Conventions = _CONVENTIONS,
    ) -> list[Row]:
        """Return the rows of a kind, oldest first. Raises as the record does."""
        result = self.result(what, returns, conventions)
        return [row for row in result.chosen if not self._is_later(row)]

    @property
    def is_dead(self) -> bool:
        """Whether the record says that the patient has died by the time of the summary."""
        now = self.now.isoformat()
        for row in self.rows("patient", "death_time"):
            times = row.facts.get("death_time", ())
            if row.facts.get("alive") == ("no",) and all(time < now for time in times):
                return True
        return False

    def denied_allergies(self) -> list[Row]:
        """Return the rows by which a record says that there is no allergy."""
        left_out = self.result("allergy", "name").left_out
        return [
            row
            for row in left_out
            if is_fact("allergy", row) and not self._is_later(row)
        ]

    def icu_activities(self) -> int:
        """Return how many activities of an intensive care unit `rows` leaves out of procedures."""
        with_activities = self.rows("procedure", conventions=CLINICAL)
        return len(with_activities) - len(self.rows("procedure"))

    def date(self, row: Row) -> str:
        """Return the date of a row, as precise as the record; empty without one."""
        return self.support.date(row, row.time)

    def line(self, what: RowKind, rows: Sequence[Row]) -> LineDraft:
        """Return the line that an answer has on rows of one thing, which come oldest first."""
        query = self.query(what, "value" if what in MEASURED else "name")
        statement = row_statements(query, rows, self.support)[0]
        return draft_of_rows(statement.text, statement.rows)

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

    def visit(self, reference: str) -> Resource:
        """Return the Encounter of a reference; an empty one if the record lacks it."""
        target = parse_reference(reference)
        return self.read(f"Encounter/{target.id}") if target else {}

    def query(self, what: RowKind, returns: ReturnedField) -> Query:
        """Return the query for all rows of a kind at the time of the summary."""
        now = self.now.isoformat(timespec="seconds")
        return Query(what=what, returns=returns, now=now)

    def result(
        self,
        what: RowKind,
        returns: ReturnedField,
        conventions: Conventions = _CONVENTIONS,
    ) -> QueryResult:
        """Return what the record has of a kind. Raises as the record does."""
        query = self.query(what, returns)
        result = execute(
            query, self.record, self.patient_id, conventions, chart=self.chart
        )
        self.gaps.update(dict.fromkeys(result.gaps))
        return result

    def _is_later(self, row: Row) -> bool:
        return row.local_time is not None and row.local_time > self.now


def person(patient: PatientRows) -> SectionDraft:
    """Return a line with the sex and the age, or the death."""
    reference = f"Patient/{patient.patient_id}"
    writer = PartWriter(patient.read(reference), patient.support, None)
    texts: list[str] = []
    for row in patient.rows("patient", "sex"):
        texts += map(clean_name, row.facts.get("sex", ()))
    rows: tuple[Row, ...] = ()
    for field in ("age", "death_time"):
        part = writer.part(
            patient.query("patient", field), patient.result("patient", field)
        )
        if part.statements and not rows:
            texts.append(part.statements[0].text.removesuffix("."))
            rows = part.rows
    if not texts:
        return SectionDraft()
    return SectionDraft((LineDraft(". ".join(texts), (reference,), rows=rows),))


def draft_of_rows(text: str, rows: Iterable[Row]) -> LineDraft:
    """Return a line that rests on rows, the first of which tells its date."""
    rows = tuple(rows)
    time = rows[0].local_time
    date = time.isoformat() if time else ""
    return LineDraft(text, tuple(references(rows)), date, rows)


def with_one_major(lines: Sequence[LineDraft]) -> list[LineDraft]:
    """Return the lines; where all are minor, the first is not."""
    if all(line.is_minor for line in lines):
        return [line._replace(is_minor=False) for line in lines[:1]] + list(lines[1:])
    return list(lines)


def groups_of(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> list[list[Row]]:
    """Return the rows of each key, in the order of the first row of each."""
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def code_key(row: Row) -> Hashable:
    """Return what rows of one thing share: the first code with its system, else the name."""
    for coding in row.codings:
        if coding.code:
            return coding.system, coding.code
    return clean_name(row.name).casefold()


def says_less(name: str, others: Iterable[str]) -> bool:
    """Whether another name begins with it and says more: `Sprain`, `Sprain of ankle`."""
    start = f"{clean_name(name)} ".casefold()
    return any(clean_name(other).casefold().startswith(start) for other in others)


def one_a_day(rows: Iterable[Row]) -> list[Row]:
    """Return the last row of each day; those without a date stay."""
    by_day: dict[str, Row] = {}
    for index, row in enumerate(rows):
        day = date_text(row.time) if row.time else f"undated {index}"
        by_day[day] = row
    return list(by_day.values())


def last_day(rows: Sequence[Row]) -> str:
    """Return the last date of rows, to sort by; empty if none has one."""
    return max((date_text(row.time) for row in rows if row.time), default="")


def is_older(rows: Sequence[Row], year: int) -> bool:
    """Whether all rows are dated before a year."""
    last = last_day(rows)
    return bool(last) and last < f"{year:04}"


def whole_name(name: str) -> str:
    """Return a display as people read it, with what it has in brackets: `[HIV]`, a brand.

    Only names of results have a property of LOINC there, which says nothing to people.
    """
    shielded = name.replace("[", _OPENING).replace("]", _CLOSING)
    return clean_name(shielded).replace(_OPENING, "[").replace(_CLOSING, "]")


def newest_groups(
    rows: Iterable[Row], key: Callable[[Row], Hashable] = code_key
) -> list[list[Row]]:
    """Return the rows of each key, those with the latest date first; of one date by name."""
    groups = groups_of(rows, key)
    groups.sort(key=lambda group: whole_name(group[0].name).casefold())
    groups.sort(key=last_day, reverse=True)
    return groups
