"""The evidence of the last answer in full, and what of an answer lies within a time.

Sentences are shown with those around them, resources with who and when.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from archqa.asking.answer import (
    Answer,
    AnswerLine,
    AnswerSpan,
    Evidence,
    Status,
    cited_evidence,
)
from archqa.asking.thread import Place, Turn
from archqa.asking.thread.changed_question import TimeLimit
from archqa.errors import CallerError
from archqa.fhir import FhirError, Record, Resource, display_name
from archqa.notes.documents import Document, patient_documents
from archqa.notes.sentences import split_note
from archqa.query.wording.words import clean_name

NOT_ASKED_AGAIN = "This is what the last answer rests on; nothing was concluded anew."

_MOST_SHOWN = 20
_SENTENCES_AROUND = 1
_PEOPLE = (
    "requester",
    "performer",
    "recorder",
    "asserter",
    "author",
    "actor",
    "individual",
)
"""Elements that hold who ordered, did or wrote it (hl7.org/fhir/R4)."""


def shown_evidence(
    turn: Turn, place: Place, record: Record | None, *, is_doubt: bool
) -> Answer:
    """Return the evidence of a turn as an answer: one line a piece, each citing itself.

    `record` is needed for evidence of a patient's record. Raises `FhirError` as the record does.
    """
    by_id = {piece.id: piece for piece in turn.evidence}
    cited: dict[str, Evidence] = {}
    for line in turn.lines:
        for name in line.citations:
            if name in by_id:
                cited[name] = by_id[name]
    if not cited:
        reason = f": {turn.message}" if turn.message else "."
        message = f"The last answer rests on no evidence{reason}"
        return Answer(question=turn.question, status=Status.NOT_FOUND, message=message)
    evidence = tuple(cited.values())
    documents = _documents(evidence, place, record)
    lines = []
    for piece in evidence[:_MOST_SHOWN]:
        if piece.kind == "sentence":
            lines.append(
                _sentence_line(piece, documents.get(_document_name(piece)), record)
            )
        else:
            lines.append(_resource_line(piece, _resource(record, piece.id)))
    remarks = [NOT_ASKED_AGAIN] if is_doubt else []
    if len(evidence) > _MOST_SHOWN:
        remarks.append(f"Not shown: {len(evidence) - _MOST_SHOWN} more.")
    return Answer(
        question=turn.question,
        status=Status.ANSWERED,
        lines=tuple(lines),
        evidence=evidence[:_MOST_SHOWN],
        remarks=tuple(remarks),
    )


def _documents(
    evidence: tuple[Evidence, ...], place: Place, record: Record | None
) -> dict[str, Document]:
    """Return the notes that hold the sentences, by the name of their source.

    The given note has none.
    """
    documents: dict[str, Document] = {}
    if not any(piece.kind == "sentence" for piece in evidence):
        return documents
    if record is not None:
        for document in patient_documents(record, place.patient_id).readable:
            documents[document.name] = document
    if place.note is not None:
        for piece in evidence:
            note = Document(piece.source, "", "", place.note)
            documents.setdefault(_document_name(piece), note)
    return documents


def _document_name(piece: Evidence) -> str:
    """Return the document of a sentence: its source, or what its id says (`DocumentReference/d1#4`)."""
    return piece.source or piece.id.partition("#")[0]


def _sentence_line(
    piece: Evidence, document: Document | None, record: Record | None
) -> AnswerLine:
    """Return the sentence among its neighbours, after title, date and author of its note."""
    if document is None:
        return AnswerLine(text=piece.text, citations=(piece.id,))
    author = next(_people(_resource(record, document.name)), "")
    title = ", ".join(filter(None, (document.title, document.date[:10], author)))
    before, after = _neighbours(document.text, piece)
    opening = f"{title}: " if title else ""
    for sentence in before:
        opening += f"{sentence} "
    text = " ".join([f"{opening}{piece.text}", *after])
    answering = AnswerSpan(len(opening), len(opening) + len(piece.text))
    return AnswerLine(text=text, citations=(piece.id,), answering=answering)


def _neighbours(note: str, piece: Evidence) -> tuple[list[str], list[str]]:
    """Return the sentences before and after one of a note; none, if it is not found."""
    try:
        sentences = split_note(note)
    except CallerError:
        return [], []
    for index, sentence in enumerate(sentences):
        is_place = piece.start_char_index in (None, sentence.start_char_index)
        if is_place and sentence.text == piece.text:
            texts = [neighbour.text for neighbour in sentences]
            before = texts[max(0, index - _SENTENCES_AROUND) : index]
            return before, texts[index + 1 : index + 1 + _SENTENCES_AROUND]
    return [], []


def _resource(record: Record | None, name: str) -> Resource | None:
    resource_type, _, resource_id = name.partition("/")
    if record is None or not resource_id:
        return None
    try:
        return record.get(resource_type, resource_id)
    except FhirError:
        return None


def _resource_line(piece: Evidence, resource: Resource | None) -> AnswerLine:
    """Return the type, the date, what it says, and who ordered, did or wrote it."""
    date = f" of {piece.date[:10]}" if piece.date else ""
    text = piece.text
    if resource is not None:
        name = clean_name(display_name(resource))
        text = text if name.lower() in text.lower() else name or text
    who = next(_people(resource), "")
    by = f", by {who}" if who else ""
    line = f"{piece.id.partition('/')[0]}{date}: {text}{by}"
    return AnswerLine(text=line, citations=(piece.id,))


def _people(resource: Any) -> Iterator[str]:
    """Yield the names of those who ordered, did or wrote a resource."""
    if not isinstance(resource, Mapping):
        return
    for element in _PEOPLE:
        values = resource.get(element)
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, Mapping):
                if value.get("display"):
                    yield str(value["display"])
                yield from _people(value)


def notes_within(answer: Answer, limit: TimeLimit) -> Answer:
    """Return the answer without lines that rest only on notes dated outside a limit.

    A search of notes knows no dates. A remark says how many lines were left out; without any line
    nothing is found.
    """
    outside = set()
    for piece in answer.evidence:
        is_within = bool(piece.date) and limit.holds(piece.date)
        if piece.kind == "sentence" and not is_within:
            outside.add(piece.id)
    lines = []
    for line in answer.lines:
        if not line.citations or not outside.issuperset(line.citations):
            lines.append(line)
    count = len(answer.lines) - len(lines)
    if not count:
        return answer
    left_out = "1 line" if count == 1 else f"{count} lines"
    remark = f"Left out: {left_out} of notes that are not dated {limit.words}."
    changes: dict[str, object] = {
        "lines": tuple(lines),
        "evidence": cited_evidence(lines, answer.evidence),
        "remarks": (*answer.remarks, remark),
    }
    if not lines:
        message = f"No note dated {limit.words} answers this."
        changes |= {"status": Status.NOT_FOUND, "message": message}
    return answer.model_copy(update=changes)
