"""The notes of a patient's record: the text in its DocumentReference resources.

Source: hl7.org/fhir/R4/documentreference.html. An attachment has base64 `data` or references a
Binary of the same record.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa.core.case import Case, Sentence
from archqa.errors import CallerError, InputError, MissingExtra
from archqa.fhir import Record
from archqa.notes.note_files import READ_MEDIA_TYPES, note_text
from archqa.notes.sentences import split_note

EXCLUDED_STATUSES = {"superseded", "entered-in-error"}


class Document(NamedTuple):
    """A note; `name` is `DocumentReference/<id>`, `date` as in the record."""

    name: str
    date: str
    title: str
    text: str


class Documents(NamedTuple):
    """A patient's notes, the latest first, and the number of documents without text that is read."""

    readable: tuple[Document, ...]
    unreadable: int


def patient_documents(record: Record, patient: str) -> Documents:
    """Return the notes of a patient (`id` or `Patient/id`). Raises FhirError.

    Superseded documents and those entered in error are excluded.
    """
    patient_id = patient.removeprefix("Patient/")
    documents: list[Document] = []
    unreadable = 0
    for resource in record.search_all("DocumentReference", {"patient": patient_id}):
        if resource.get("status") in EXCLUDED_STATUSES:
            continue
        texts = [text for text in _attachment_texts(record, resource) if text.strip()]
        if texts:
            documents.append(_document(resource, "\n\n".join(texts)))
        else:
            unreadable += 1
    documents.sort(key=lambda document: document.date, reverse=True)
    return Documents(tuple(documents), unreadable)


def case_from_documents(
    question: str, documents: tuple[Document, ...]
) -> tuple[Case, dict[str, str]]:
    """Return one case of all notes, and the document of each sentence id.

    Sentence ids are `n1.1`, `n1.2`, …, `n2.1`. Raises CallerError for an empty question.
    """
    question = " ".join(question.split())
    if not question:
        raise CallerError("There is no question.\nAsk something the record could answer.")
    sentences: list[Sentence] = []
    document_of_sentence: dict[str, str] = {}
    for number, document in enumerate(documents, start=1):
        for sentence in split_note(document.text, prefix=f"n{number}."):
            paragraph_id = f"{number}.{sentence.paragraph_id}"
            sentences.append(sentence.model_copy(update={"paragraph_id": paragraph_id}))
            document_of_sentence[sentence.id] = document.name
    case = Case(
        id="record",
        patient_narrative=question,
        clinician_question=question,
        sentences=tuple(sentences),
    )
    return case, document_of_sentence


def _document(resource: Mapping[str, Any], text: str) -> Document:
    document_type = resource.get("type") or {}
    title = resource.get("description") or document_type.get("text") or ""
    date = resource.get("date") or ""
    resource_id = resource.get("id", "")
    return Document(
        name=f"DocumentReference/{resource_id}",
        date=str(date),
        title=str(title),
        text=text,
    )


def _attachment_texts(record: Record, resource: Mapping[str, Any]) -> Iterator[str]:
    for content in resource.get("content") or ():
        attachment = content.get("attachment") or {}
        content_type = str(attachment.get("contentType") or "")
        media_type, _, parameters = content_type.partition(";")
        media_type = media_type.strip().lower()
        if media_type == "text/plain":
            yield _decode(_base64_data(record, attachment), parameters)
        elif media_type in READ_MEDIA_TYPES:
            yield _convert(_base64_data(record, attachment), media_type, parameters)


def _base64_data(record: Record, attachment: Mapping[str, Any]) -> str:
    """Return the data of the attachment, or of the Binary it references; empty without either."""
    if data := attachment.get("data"):
        return str(data)
    path, _, binary_id = str(attachment.get("url") or "").rpartition("/")
    _, _, resource_type = path.rpartition("/")
    if resource_type != "Binary":
        return ""
    binary = record.get("Binary", binary_id.partition("?")[0]) or {}
    return str(binary.get("data") or "")


def _decode(data: str, parameters: str) -> str:
    """Decode base64 text; bytes outside the charset become `�`, invalid base64 an empty text."""
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
        return content.decode(_charset(parameters), errors="replace")
    except (binascii.Error, ValueError, LookupError):
        return ""


def _convert(data: str, media_type: str, parameters: str) -> str:
    """Return the text of base64 HTML, RTF or PDF, empty where it is damaged or not to be read."""
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
        return note_text(content, media_type, _charset(parameters, default=""))
    except (binascii.Error, ValueError, InputError, MissingExtra):
        return ""


def _charset(parameters: str, default: str = "utf-8") -> str:
    """Return the charset of a media type's parameters."""
    name, _, charset = parameters.strip().partition("=")
    if name.strip().lower() == "charset":
        return charset.strip('" ')
    return default
