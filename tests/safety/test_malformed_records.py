"""One malformed resource or document: the load names it, and answers come from everything else."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import archqa
from tests.safety.storage_tools import archqa as command

Resource = dict[str, Any]

PATIENT: Resource = {"reference": "Patient/p"}
NAMED, SILENT = True, False
"""Whether a load names the resource: what reads as if an element were absent is no mistake."""


def _encoded(content: bytes | str) -> str:
    if isinstance(content, str):
        content = content.encode()
    return base64.b64encode(content).decode()


def _potassium(value: float, **elements: Any) -> Resource:
    return {
        "resourceType": "Observation",
        "id": "good",
        "status": "final",
        "subject": PATIENT,
        "effectiveDateTime": "2024-03-05",
        "code": {
            "coding": [{"system": "http://loinc.org", "code": "2823-3"}],
            "text": "Potassium",
        },
        "valueQuantity": {"value": value, "unit": "mmol/L"},
        **elements,
    }


def _document(content_type: str, content: bytes | str, **elements: Any) -> Resource:
    attachment = {"contentType": content_type, "data": _encoded(content)}
    return {
        "resourceType": "DocumentReference",
        "id": "bad",
        "status": "current",
        "subject": PATIENT,
        "date": "2024-03-01",
        "content": [{"attachment": attachment}],
        **elements,
    }


GOOD: list[Resource] = [
    {
        "resourceType": "Patient",
        "id": "p",
        "name": [{"family": "Stone", "given": ["Ann"]}],
        "gender": "female",
        "birthDate": "1951-02-03",
    },
    _potassium(4.2),
    _document("text/plain", "She slept well.", id="good"),
]


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def _deep_section(levels: int) -> Resource:
    section: Resource = {"title": "Plan"}
    for _ in range(levels):
        section = {"title": "Plan", "section": [section]}
    return section


def _observations() -> Iterator[tuple[str, Resource, bool]]:
    def observation(**elements: Any) -> Resource:
        return _potassium(9.9, id="bad", **elements)

    for element in ("status", "code", "subject", "valueQuantity", "effectiveDateTime"):
        for value in (["x"], {"x": 1} if element == "status" else 7, True):
            yield f"{element} {value}", observation(**{element: value}), NAMED
        yield f"{element} null", observation(**{element: None}), SILENT
    for element in ("category", "interpretation", "referenceRange", "note"):
        yield f"{element} text", observation(**{element: "x"}), NAMED
        yield f"{element} numbers", observation(**{element: [1, 2]}), NAMED
        yield f"{element} deep", observation(**{element: _nested(150)}), NAMED
    yield "code.coding", observation(code={"coding": {"code": ["x"]}}), NAMED
    yield "code.text", observation(code={"text": ["x"]}), NAMED
    yield "component", observation(component=[{"code": "x"}, 1]), NAMED
    yield "contained", observation(contained=[{"resourceType": ["x"]}, "x"]), NAMED
    yield "extension", observation(extension={"url": "x"}), NAMED
    yield "meta", observation(meta=["x"]), NAMED
    quantities = (10**400, -(10**400), 10**4000, "1.5", "NaN", True, [1], {"value": 1})
    for number in quantities:
        quantity = {"value": number, "unit": "mmol/L"}
        yield f"value {str(number)[:9]}", observation(valueQuantity=quantity), NAMED
    for number in (-0.0, 1e308, 5e-324, 10**300, -(10**300)):
        quantity = {"value": number, "unit": "mmol/L"}
        old = observation(valueQuantity=quantity, effectiveDateTime="2001-01-01")
        yield f"value {number:g}", old, SILENT
    for time in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        yield f"time {time}", observation(effectiveDateTime=time), NAMED
        yield f"issued {time}", observation(issued=time), NAMED
    times = (
        "0001-01-01",
        "0000-00-00",
        "2001-02-30",
        "2001-13-45",
        "2001-01-01T23:59:60Z",
        "2001-01-01T00:00:00+14:00",
        "yesterday",
        "",
        "2" * 10_000,
    )
    for time in times:
        yield f"time {time[:30]}", observation(effectiveDateTime=time), SILENT


def _other_rows() -> Iterator[tuple[str, Resource, bool]]:
    condition = {
        "resourceType": "Condition",
        "id": "bad",
        "subject": PATIENT,
        "code": {"text": "Gout"},
        "abatementDateTime": "9999-12-31",
    }
    yield "an end in the last day of all", condition, SILENT
    dispense = {
        "resourceType": "MedicationDispense",
        "id": "bad",
        "status": "completed",
        "subject": PATIENT,
        "medicationCodeableConcept": {"text": "Allopurinol"},
        "whenHandedOver": "2024-01-01",
        "daysSupply": {"value": 1e300, "unit": "d"},
    }
    yield "a supply for ever", dispense, SILENT
    encounter = {"resourceType": "Encounter", "id": "bad", "subject": PATIENT}
    yield "class", {**encounter, "class": "x", "period": {"start": 1}}, NAMED
    yield "period", {**encounter, "period": "2024"}, NAMED
    order = {"resourceType": "MedicationRequest", "id": "bad", "subject": PATIENT}
    yield "dosage", {**order, "dosageInstruction": {"text": "x"}}, NAMED
    yield "medication", {**order, "medicationCodeableConcept": [{"text": "x"}]}, NAMED


def _documents() -> Iterator[tuple[str, Resource, bool]]:
    words = "Aspirin was given."
    for charset in (
        "idna",
        "undefined",
        "punycode",
        "utf-7",
        "unicode_escape",
        "raw_unicode_escape",
        "rot13",
        "base64",
        "zlib",
        "a\0b",
        "\ud83d\ude00",
        "no-such-charset",
        "x" * 100_000,
    ):
        kind = f"text/plain; charset={charset}"
        yield f"charset {charset[:20]!r}", _document(kind, words), NAMED
    for charset in ("idna", "undefined", "punycode", "utf-7", "unicode_escape"):
        page = f'<html><meta charset="{charset}"><body>{words}</body></html>'
        yield f"meta charset {charset}", _document("text/html", page), NAMED
    conflicting = "<html><meta charset=undefined><meta charset=utf-8><p>x</p></html>"
    yield "two charsets", _document("text/html", conflicting), NAMED
    half = rb"{\rtf1\ansi Aspirin \u-10179? was given.}"
    yield "half a character in RTF", _document("text/rtf", half), SILENT
    yield "damaged RTF", _document("text/rtf", rb"{\rtf1\ansi\u99999999999 }"), NAMED
    yield "a picture", _document("image/png", b"\x89PNG\r\n"), NAMED
    bomb = gzip.compress(b" " * 30_000_000)
    yield "a gzip bomb", _document("text/html", bomb), NAMED
    yield "an empty attachment", _document("text/plain", ""), NAMED
    for data in ("!!!", "QQ", ["QQ=="], 7, "é"):
        attachment = {"contentType": "text/plain", "data": data}
        damaged = _document("text/plain", "") | {
            "content": [{"attachment": attachment}]
        }
        yield f"data {data!r}", damaged, NAMED
    for element in ("status", "docStatus", "type", "date", "content", "relatesTo"):
        yield f"{element} 7", _document("text/plain", words) | {element: 7}, NAMED
    for value in (["current"], {"value": "current"}):
        document = _document("text/plain", words, status=value)
        yield f"status {value}", document, NAMED
    yield "status null", _document("text/plain", words, status=None), SILENT
    composition = {
        "resourceType": "Composition",
        "id": "bad",
        "status": "final",
        "subject": PATIENT,
        "section": [_deep_section(60)],
    }
    yield "deep sections", composition, SILENT
    yield "section", {**composition, "section": {"text": "x"}}, NAMED


KINDS = [*_observations(), *_other_rows(), *_documents()]


@pytest.mark.parametrize(
    ("malformed", "is_named"),
    [pytest.param(kind, named, id=name) for name, kind, named in KINDS],
)
def test_the_others_answer_and_the_malformed_one_is_named(
    malformed: Resource, is_named: bool, tmp_path: Path
) -> None:
    lines = [json.dumps(resource) for resource in (*GOOD, malformed)]
    (tmp_path / "record.ndjson").write_text("\n".join(lines))
    record = tmp_path / "record.db"
    loaded = command("fhir", "load", tmp_path / "record.ndjson", "--into", record)
    printed = loaded.stdout + loaded.stderr
    assert loaded.returncode == 0, printed
    assert "Traceback" not in printed
    assert (f"{malformed['resourceType']}/bad" in printed) == is_named
    answer = archqa.ask("What was the last potassium?", patient="p", record=record)
    assert "4.2 mmol/L on 2024-03-05" in answer.text
    assert "9.9" not in answer.text or not is_named
    brief = archqa.brief(patient="p", record=record)
    assert "Potassium" in brief.text


def test_answers_say_what_is_left_out_until_a_load_brings_it_well_formed(
    tmp_path: Path,
) -> None:
    record = tmp_path / "record.db"
    malformed = _potassium(9.9, id="bad", status=["final"])
    lines = [json.dumps(resource) for resource in (*GOOD, malformed)]
    (tmp_path / "first.ndjson").write_text("\n".join(lines))
    first = command("fhir", "load", tmp_path / "first.ndjson", "--into", record)
    assert "first.ndjson:4: Observation/bad has a malformed status" in first.stderr
    question = "What was the last potassium?"
    answer = archqa.ask(question, patient="p", record=record)
    left_out = "1 malformed Observation left out (Observation/bad)"
    assert any(left_out in remark for remark in answer.remarks)
    absent = archqa.ask("What was the last sodium?", patient="p", record=record)
    assert left_out in absent.text
    assert left_out in archqa.brief(patient="p", record=record).text
    better = _potassium(5.1, id="bad", effectiveDateTime="2024-04-01")
    (tmp_path / "second.ndjson").write_text(json.dumps(better))
    command("fhir", "load", tmp_path / "second.ndjson", "--into", record)
    answer = archqa.ask(question, patient="p", record=record)
    assert "5.1 mmol/L on 2024-04-01" in answer.text
    assert not any("malformed" in remark for remark in answer.remarks)


def test_a_malformed_patient_still_has_results(tmp_path: Path) -> None:
    patient = {**GOOD[0], "name": "Ann Stone", "birthDate": 1951}
    lines = [json.dumps(resource) for resource in (patient, *GOOD[1:])]
    (tmp_path / "record.ndjson").write_text("\n".join(lines))
    record = tmp_path / "record.db"
    command("fhir", "load", tmp_path / "record.ndjson", "--into", record)
    answer = archqa.ask("What was the last potassium?", patient="p", record=record)
    assert "4.2 mmol/L" in answer.text
    archqa.brief(patient="p", record=record)


@pytest.mark.parametrize(
    ("charset", "text"),
    [("latin1", "Ödem"), ("Windows-1252", "Ödem"), ("KOI8-R", "отёк"), ("GBK", "水肿")],
)
def test_a_note_in_a_charset_of_texts_is_read(
    charset: str, text: str, tmp_path: Path
) -> None:
    note = _document(f"text/plain; charset={charset}", f"{text}.".encode(charset))
    lines = [json.dumps(resource) for resource in (*GOOD, note)]
    (tmp_path / "record.ndjson").write_text("\n".join(lines))
    loaded = command(
        "fhir", "load", tmp_path / "record.ndjson", "--into", tmp_path / "record.db"
    )
    assert "2 notes indexed" in loaded.stdout


def test_a_full_disk_leaves_no_empty_record_and_is_the_reason_given(
    tmp_path: Path,
) -> None:
    from tests.safety.storage_tools import files_of_at_most

    rows = []
    for number in range(4000):
        text = str(number * 7919) * 20
        rows.append(json.dumps(_potassium(4, id=f"o{number}", note=[{"text": text}])))
    (tmp_path / "many.ndjson").write_text("\n".join(rows))
    record = tmp_path / "record.db"
    with files_of_at_most(300_000):
        result = command("fhir", "load", tmp_path / "many.ndjson", "--into", record)
    assert result.returncode == 3
    assert "rollback" not in result.stderr
    assert (
        "cannot be written (d" in result.stderr
    )  # disk I/O error, database or disk is full
    assert not record.exists()
