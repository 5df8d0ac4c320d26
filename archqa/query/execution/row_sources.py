"""All rows of one kind with one of the requested names."""

from collections.abc import Callable

from archqa.query.execution.coded import diagnoses, patient_rows, procedures
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.measurements import measurements
from archqa.query.execution.medications import medications
from archqa.query.execution.microbiology import MICROBIOLOGY_KINDS, microbiology
from archqa.query.execution.names import NameMatcher
from archqa.query.execution.rows import Row
from archqa.query.execution.visits import care_units, hospital_visits, icu_stays

_PLURALS = {
    "lab": "lab results",
    "microbiology_test": "microbiology tests",
    "organism": "organisms",
    "susceptibility": "susceptibility results",
    "diagnosis": "diagnoses",
}
_SOURCES: dict[str, Callable[[ExecutionContext], list[Row]]] = {
    "medication": medications,
    "procedure": procedures,
    "diagnosis": diagnoses,
    "hospital_visit": hospital_visits,
    "icu_stay": icu_stays,
    "care_unit": care_units,
    "patient": patient_rows,
}


def fetch_rows(
    context: ExecutionContext, what: str, names: tuple[str, ...], scope: Scope
) -> list[Row]:
    """Rows of one kind with one of the names. Nothing is fetched for a visit that does not exist."""
    if scope.visit_not_found:
        return []
    if what in {"lab", "vital", "output"}:
        return measurements(context, what, names, scope)
    if what in MICROBIOLOGY_KINDS:
        rows = microbiology(context, what)
    else:
        rows = _SOURCES[what](context)
    if not names:
        return rows
    record_names: list[str] = []
    for row in rows:
        record_names += row.names
    matches = NameMatcher(names, record_names, context.conventions, what)
    return [row for row in rows if matches(*row.names)]


def plural(what: str) -> str:
    """The kind of rows as text: "lab results"."""
    return _PLURALS.get(what) or f"{what.replace('_', ' ')}s"
