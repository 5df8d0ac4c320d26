"""Invented rows, and a record that holds what they say."""

from collections.abc import Callable, Iterable
from typing import Any

from archqa.asking.answer import Answer
from archqa.asking.record_answer import (
    record_answer,
)
from archqa.query.execution.findings import Answer as Found
from archqa.query.execution.findings import QueryResult, collect_evidence
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.model import Query

Resource = dict[str, Any]
NOW = "2026-11-23T12:00:00"
LOINC = "http://loinc.org"
PATIENT: Resource = {
    "resourceType": "Patient",
    "id": "p1",
    "name": [{"given": ["Ana"], "family": "Cruz"}],
    "gender": "female",
    "birthDate": "1971-08-28",
}


class InventedRecord:
    """A record that holds what rows say, each row as a resource of its own."""

    def __init__(self, rows: Iterable[Row], patient: Resource = PATIENT) -> None:
        self._resources: dict[tuple[str, str], Resource] = {
            ("Patient", patient["id"]): patient
        }
        for each in rows:
            for ref in each.refs:
                resource_type, resource_id = ref.split("/")
                resource = self._resources.setdefault((resource_type, resource_id), {})
                resource.setdefault("rows", []).append(_as_element(each))

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        return self._resources.get((resource_type, resource_id))

    def change(self, ref: str, **elements: Any) -> None:
        resource_type, resource_id = ref.split("/")
        resource = self._resources[resource_type, resource_id]
        resource["rows"] = [element | elements for element in resource["rows"]]


def _as_element(row: Row) -> Resource:
    texts = [text for values in row.facts.values() for text in values]
    times = [time.isoformat() for time in (row.time, row.end) if time]
    return {
        "names": list(row.names),
        "value": row.value,
        "text": row.text,
        "facts": texts + times,
    }


def row(ref: str, name: str, date: str = "", **fields: Any) -> Row:
    end = parse_datetime(fields.pop("end", ""))
    facts = dict(fields.pop("facts", {}))
    if "status" in fields:
        facts["status"] = (fields.pop("status"),)
    return Row(
        refs=(ref,),
        name=name,
        names=(name,),
        time=parse_datetime(date),
        end=end,
        facts=facts,
        chosen=True,
        **fields,
    )


def result(
    query: Query, rows: Iterable[Row], answer: Found | None = None
) -> QueryResult:
    rows = tuple(rows)
    return QueryResult(
        query=query,
        patient="p1",
        conventions="clinical",
        answer=answer or Found(kind="text"),
        rows=rows,
        evidence=collect_evidence(row for row in rows if row.chosen),
    )


def answer_to(
    query: Query,
    rows: Iterable[Row],
    *,
    found: Found | None = None,
    execute: Callable[[Query], QueryResult] | None = None,
    patient: Resource = PATIENT,
    record: Any = None,
) -> Answer:
    rows = list(rows)
    record = record or InventedRecord(rows, patient)
    readings = [(query, result(query, rows, found))]
    return record_answer("?", readings, patient, record, execute=execute)


def texts(answer: Answer) -> list[str]:
    return [line.text for line in answer.lines]


def query(what: str, **fields: Any) -> Query:
    return Query(what=what, now=NOW, **fields)


def lab(
    number: int, date: str, value: float, name: str = "Glucose", unit: str = "mg/dL"
) -> Row:
    return row(f"Observation/o{number}", name, date, value=value, unit=unit)


def vaccine(number: int, date: str, name: str = "Influenza vaccine") -> Row:
    return row(f"Immunization/i{number}", name, date, status="completed")


def order(number: int, date: str, status: str = "active", **fields: Any) -> Row:
    name = fields.pop("name", "Simvastatin 10 MG Oral Tablet")
    return row(f"MedicationRequest/m{number}", name, date, status=status, **fields)


def person(facts: dict[str, tuple[str, ...]], **patient: Any) -> tuple[Row, Resource]:
    resource = (
        PATIENT
        | patient
        | {"said": [text for values in facts.values() for text in values]}
    )
    return Row(refs=("Patient/p1",), name="patient", facts=facts, chosen=True), resource
