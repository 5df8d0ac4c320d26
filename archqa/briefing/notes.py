"""The sentences of a patient's notes of a period."""

from datetime import datetime
from typing import NamedTuple

from archqa.fhir import Record
from archqa.notes.documents import Document, patient_documents
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
            sentences += _sentences(document)
    return tuple(sentences)


def _sentences(document: Document) -> list[NoteSentence]:
    title, author, date = document.title, document.author, document.date
    return [
        NoteSentence(sentence.id, sentence.text, title, author, date)
        for sentence in document.sentences()
    ]
