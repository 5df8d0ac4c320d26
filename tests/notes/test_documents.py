"""Attachments of a patient's documents in other formats than plain text."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Store
from archqa.notes.documents import patient_documents


def attachment(content: bytes, media_type: str) -> dict[str, Any]:
    return {"contentType": media_type, "data": base64.b64encode(content).decode()}


def read(folder: Path, content: bytes, media_type: str) -> tuple[list[str], int]:
    """Return the texts of a record with one document, and the number of those not read."""
    document = {
        "resourceType": "DocumentReference",
        "id": "d1",
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        "content": [{"attachment": attachment(content, media_type)}],
    }
    patient = {"resourceType": "Patient", "id": "p1"}
    file = folder / "all.ndjson"
    file.write_text(f"{json.dumps(patient)}\n{json.dumps(document)}\n")
    with Store.open(folder / "record.db", create=True) as store:
        store.load([file])
        documents = patient_documents(store, "p1")
    return [document.text.strip() for document in documents.readable], len(
        documents.unread
    )


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        ("<p>Müller is <b>well</b>.</p>".encode(), "text/html"),
        ("<p>Müller is well.</p>".encode("latin-1"), "text/html; charset=iso-8859-1"),
        (rb"{\rtf1\ansi M\'fcller is well.}", "application/rtf"),
    ],
)
def test_a_document_in_html_or_rtf_is_read(
    tmp_path: Path, content: bytes, media_type: str
) -> None:
    assert read(tmp_path, content, media_type) == (["Müller is well."], 0)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"%PDF-1.7 damaged", "application/pdf"),
        (b"\x89PNG", "image/png"),
        (b"", "text/html"),
    ],
)
def test_a_document_that_cannot_be_read_is_counted(
    tmp_path: Path, content: bytes, media_type: str
) -> None:
    assert read(tmp_path, content, media_type) == ([], 1)
