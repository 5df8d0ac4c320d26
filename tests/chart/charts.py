"""Small charts for tests: notes as FHIR resources, loaded and indexed."""

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from archqa.chart.note_index import encode, index_notes
from archqa.fhir import Store

PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Example"}]}


def attachment(text: str | bytes, media_type: str = "text/plain") -> dict[str, Any]:
    content = text.encode() if isinstance(text, str) else text
    return {"contentType": media_type, "data": base64.b64encode(content).decode()}


def note(
    name: str,
    text: str | bytes,
    date: str = "2024-01-01",
    patient: str = "p1",
    media_type: str = "text/plain",
    **more: Any,
) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "id": name,
        "status": "current",
        "date": f"{date}T10:00:00Z",
        "subject": {"reference": f"Patient/{patient}"},
        "content": [{"attachment": attachment(text, media_type)}],
        **more,
    }


def load(
    path: Path, resources: Iterable[Mapping[str, Any]], *, index: bool = True
) -> Path:
    """Load resources into the record at a path, and index its notes."""
    file = path.with_suffix(".ndjson")
    file.write_text("".join(f"{json.dumps(resource)}\n" for resource in resources))
    with Store.open(path, create=True) as store:
        store.load([file])
    if index:
        index_notes(path, encode)
    return path
