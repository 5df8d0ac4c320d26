"""The notes of a patient's record: the plain text inside its DocumentReference resources.

Source: hl7.org/fhir/R4/documentreference.html; attachments hold base64 `data`, or name a Binary of the same record.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa.core.case import Case, Sentence
from archqa.errors import CallerError
from archqa.fhir import Record
from archqa.notes.sentences import split_note


class Document(NamedTuple):
    """One note. `name` is `DocumentReference/<id>`, `date` as the record has it."""

    name: str
    date: str
    title: str
    text: str


class Documents(NamedTuple):
    """The notes of a patient, the latest first, and how many documents hold no plain text."""

    found: tuple[Document, ...]
    unreadable: int


def patient_documents(record: Record, patient: str) -> Documents:
    """The notes of a patient (`id` or `Patient/id`). Superseded and mistaken ones are left out. Raises `FhirError`."""
    patient_id = patient.removeprefix("Patient/")
    found, unreadable = [], 0
    for resource in record.search_all("DocumentReference", {"patient": patient_id}):
        if resource.get("status") in {"superseded", "entered-in-error"}:
            continue
        texts = [text for text in _texts(record, resource) if text.strip()]
        unreadable += not texts
        if texts:
            found.append(_document(resource, "\n\n".join(texts)))
    return Documents(tuple(sorted(found, key=lambda each: each.date, reverse=True)), unreadable)


def case_from_documents(question: str, found: tuple[Document, ...]) -> tuple[Case, dict[str, str]]:
    """One case of all notes, sentence ids `n1.1`, `n1.2`, …, `n2.1`; and each id's document. Raises `CallerError`."""
    asked = " ".join(question.split())
    if not asked:
        raise CallerError("There is no question.\nAsk something the record could answer.")
    sentences: list[Sentence] = []
    source: dict[str, str] = {}
    for number, document in enumerate(found, start=1):
        for each in split_note(document.text, prefix=f"n{number}."):
            sentences.append(
                each.model_copy(update={"paragraph_id": f"{number}.{each.paragraph_id}"})
            )
            source[each.id] = document.name
    case = Case(
        id="record", patient_narrative=asked, clinician_question=asked, sentences=tuple(sentences)
    )
    return case, source


def _document(resource: Mapping[str, Any], text: str) -> Document:
    kind = resource.get("type") or {}
    title = resource.get("description") or kind.get("text") or ""
    date = resource.get("date") or ""
    return Document(f"DocumentReference/{resource.get('id', '')}", str(date), str(title), text)


def _texts(record: Record, resource: Mapping[str, Any]) -> Iterator[str]:
    for content in resource.get("content") or ():
        attachment = content.get("attachment") or {}
        kind, _, parameters = str(attachment.get("contentType") or "").partition(";")
        if kind.strip().lower() == "text/plain":
            yield _decoded(_data(record, attachment), parameters)


def _data(record: Record, attachment: Mapping[str, Any]) -> str:
    """The attachment's base64, in itself or in the Binary it names."""
    if data := attachment.get("data"):
        return str(data)
    kind, _, binary_id = str(attachment.get("url") or "").rpartition("/")
    if kind.rpartition("/")[2] != "Binary":
        return ""
    binary = record.get("Binary", binary_id.partition("?")[0])
    return str((binary or {}).get("data") or "")


def _decoded(data: str, parameters: str) -> str:
    """The text; empty for what is no base64, and `�` for bytes that are not of the charset (UTF-8 unless named)."""
    name, _, charset = parameters.strip().partition("=")
    try:
        found = base64.b64decode("".join(data.split()), validate=True)
        return found.decode(
            charset.strip('" ') if name.strip().lower() == "charset" else "utf-8", errors="replace"
        )
    except (binascii.Error, ValueError, LookupError):
        return ""
