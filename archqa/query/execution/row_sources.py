"""All rows of one kind with one of the requested names."""

from collections.abc import Callable

from archqa.query.execution.coded import diagnoses, patient_rows, procedures
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.declared_rows import declared_rows
from archqa.query.execution.measurements import count_measurements, measurements
from archqa.query.execution.medications import administrations, medications
from archqa.query.execution.microbiology import microbiology
from archqa.query.execution.named_rows import Wanted, select_named
from archqa.query.execution.observations import (
    observations,
    reads_all,
    reads_all_locally,
    results_of_kind,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.visits import care_units, encounters, hospital_visits, icu_stays
from archqa.query.kinds import KINDS, Reader

_READERS: dict[Reader, Callable[[ExecutionContext], list[Row]]] = {
    "medications": medications,
    "administrations": administrations,
    "procedures": procedures,
    "diagnoses": diagnoses,
    "hospital_visits": hospital_visits,
    "icu_stays": icu_stays,
    "care_units": care_units,
    "encounters": encounters,
    "patient_rows": patient_rows,
}


def fetch_rows(context: ExecutionContext, what: str, wanted: Wanted, scope: Scope) -> list[Row]:
    """Rows of one kind with one of the names; none for a visit that does not exist."""
    if scope.visit_not_found:
        return []
    kind = KINDS[what]
    if kind.reader == "measurements":
        by_category = context.conventions.name_matching == "words" and what != "output"
        if by_category and reads_all_locally(context):
            return results_of_kind(context, what, wanted)
        return measurements(context, what, wanted, scope)
    if kind.reader == "observations":
        return observations(context, wanted, scope)
    if kind.reader == "microbiology":
        rows = microbiology(context, what)
    elif kind.reader == "declared":
        rows = declared_rows(context, what)
    else:
        rows = _READERS[kind.reader](context)
    return select_named(context, what, rows, wanted)


def plural(what: str) -> str:
    """The kind of rows as text: "lab results"."""
    return KINDS[what].plural


def count_in_record(context: ExecutionContext, what: str, scope: Scope) -> int:
    """The number of rows of a kind, whatever their name, in the whole record of the patient."""
    if scope.visit_not_found:
        return 0
    if KINDS[what].reader == "measurements":
        return count_measurements(context, what)
    if KINDS[what].reader == "observations" and not reads_all(context):
        return context.chart.observation_count
    return len(fetch_rows(context, what, Wanted(), scope))
