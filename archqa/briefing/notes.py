"""The sentences of a patient's notes, each with an id that says of which document it is."""

from datetime import datetime
from typing import NamedTuple

from archqa.fhir import Record, Resource
from archqa.notes.documents import Document, patient_documents
from archqa.notes.sentences import split_note
from archqa.query.execution.elements import objects_at, text_at
from archqa.query.execution.rows import parse_datetime, without_timezone


class NoteSentence(NamedTuple):
    """A sentence as it stands in its document; `id` is `DocumentReference/<id>#<n>`."""

    id: str
    text: str
    title: str = ""
    author: str = ""
    date: str = ""

    @property
    def source(self) -> str:
        """The document in words: its title and its author."""
        return ", ".join(filter(None, (self.title, self.author)))


def note_sentences(
    record: Record, patient: str, since: datetime, until: datetime
) -> tuple[NoteSentence, ...]:
    """Return the sentences of the notes of a period, the oldest note first.

    Notes without a date are left out. Raises as the record does.
    """
    sentences: list[NoteSentence] = []
    for document in reversed(patient_documents(record, patient).readable):
        written = without_timezone(parse_datetime(document.date))
        if written is not None and since <= written <= until:
            sentences += _sentences(record, document)
    return tuple(sentences)


def _sentences(record: Record, document: Document) -> list[NoteSentence]:
    resource_type, _, document_id = document.name.partition("/")
    resource = record.get(resource_type, document_id) or {}
    author = _author(resource)
    return [
        NoteSentence(
            f"{document.name}#{sentence.id}",
            sentence.text,
            _title(resource, document),
            author,
            document.date,
        )
        for sentence in split_note(document.text)
    ]


def _title(resource: Resource, document: Document) -> str:
    return document.title or text_at(resource, "type.coding.display")


def _author(resource: Resource) -> str:
    names = [text_at(author, "display") for author in objects_at(resource, "author")]
    return "; ".join(filter(None, names))
