"""The resources that an answer about a record rests on."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from archqa.asking.answer import Evidence
from archqa.asking.record_displays import clean_name
from archqa.asking.record_measured import value_text
from archqa.asking.record_names import row_status
from archqa.asking.record_statements import references
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row


def record_evidence(rows: Iterable[Row], results: Iterable[QueryResult]) -> Iterator[Evidence]:
    """Yield each resource once: those of the rows, then what else the results rest on."""
    told: set[str] = set()
    for row in rows:
        for ref in references([row]):
            if ref not in told:
                told.add(ref)
                yield _resource_evidence(ref, _row_text(row), row.local_time)
    for result in results:
        for resource_type, ids in result.evidence.items():
            for ref in (f"{resource_type}/{resource_id}" for resource_id in ids):
                if ref not in told:
                    told.add(ref)
                    yield _resource_evidence(ref, "", None)


def _resource_evidence(ref: str, text: str, time: datetime | None) -> Evidence:
    date = time.isoformat() if time else ""
    return Evidence(id=ref, kind="resource", text=text, source=ref.partition("/")[0], date=date)


def _row_text(row: Row) -> str:
    """A row in a few words: name, value, status."""
    if row.refs[0].startswith("Patient/"):
        return "the patient"
    parts = (clean_name(row.name), value_text(row), row_status(row))
    return ", ".join(part for part in parts if part)
