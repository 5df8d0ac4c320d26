"""The evidence of the last answer in full, and what of an answer lies within a time.

Sentences are shown with those around them, resources with who and when.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa.asking.answer import Answer, AnswerLine, AnswerSpan, Evidence, Status
from archqa.asking.record_displays import clean_name
from archqa.asking.thread import Place, Turn
from archqa.asking.thread.changed_question import TimeLimit
from archqa.errors import CallerError
from archqa.fhir import FhirError, Record, Resource, display_name
from archqa.notes.documents import Document, patient_documents
from archqa.notes.sentences import split_note

NOT_ASKED_AGAIN = "This is what the last answer rests on; nothing was concluded anew."

_MOST_SHOWN = 20
_SENTENCES_AROUND = 1
_PEOPLE = ("requester", "performer", "recorder", "asserter", "author", "actor", "individual")
"""Elements that hold who ordered, did or wrote it (hl7.org/fhir/R4)."""


class _Context(NamedTuple):
    """A text and the part of it that is the evidence itself."""

    text: str
    start: int
    end: int


def shown_evidence(turn: Turn, place: Place, record: Record | None, *, is_doubt: bool) -> Answer:
    """Return the evidence of a turn as an answer: one line a piece, each citing itself.

    `record` is needed for evidence of a patient's record. Raises `FhirError` as the record does.
    """
    evidence = _cited(turn)
    if not evidence:
        reason = f": {turn.message}" if turn.message else "."
        message = f"The last answer rests on no evidence{reason}"
        return Answer(question=turn.question, status=Status.NOT_FOUND, message=message)
    documents = _documents(evidence, place, record)
    lines = tuple(_line(piece, documents, record) for piece in evidence[:_MOST_SHOWN])
    remarks = [NOT_ASKED_AGAIN] if is_doubt else []
    if len(evidence) > _MOST_SHOWN:
        remarks.append(f"Not shown: {len(evidence) - _MOST_SHOWN} more.")
    return Answer(
        question=turn.question,
        status=Status.ANSWERED,
        lines=lines,
        evidence=evidence[:_MOST_SHOWN],
        remarks=tuple(remarks),
    )


def _cited(turn: Turn) -> tuple[Evidence, ...]:
    """The evidence that the lines cite, in the order of the lines."""
    by_id = {piece.id: piece for piece in turn.evidence}
    cited = dict.fromkeys(name for line in turn.lines for name in line.citations)
    return tuple(by_id[name] for name in cited if name in by_id)


def _documents(
    evidence: tuple[Evidence, ...], place: Place, record: Record | None
) -> dict[str, Document]:
    """The notes that hold the sentences, by the name of their source; the given note has none."""
    documents: dict[str, Document] = {}
    if not any(piece.kind == "sentence" for piece in evidence):
        return documents
    if record is not None:
        for document in patient_documents(record, place.patient_id).readable:
            documents[document.name] = document
    if place.note is not None:
        for piece in evidence:
            given = Document(piece.source, "", "", place.note)
            documents.setdefault(_document_name(piece), given)
    return documents


def _document_name(piece: Evidence) -> str:
    """The document of a sentence: its source, or what its id says (`DocumentReference/d1#4`)."""
    return piece.source or piece.id.partition("#")[0]


def _line(piece: Evidence, documents: Mapping[str, Document], record: Record | None) -> AnswerLine:
    if piece.kind == "sentence":
        return _sentence_line(piece, documents.get(_document_name(piece)), record)
    resource = _resource(record, piece.id)
    return AnswerLine(text=_resource_text(piece, resource), citations=(piece.id,))


def _sentence_line(piece: Evidence, document: Document | None, record: Record | None) -> AnswerLine:
    """The sentence among its neighbours, after the title, the date and the author of its note."""
    if document is None:
        return AnswerLine(text=piece.text, citations=(piece.id,))
    context = sentence_in_context(document.text, piece)
    author = next(_people(_resource(record, document.name)), "")
    named = ", ".join(filter(None, (document.title, document.date[:10], author)))
    opening = f"{named}: " if named else ""
    answering = AnswerSpan(len(opening) + context.start, len(opening) + context.end)
    text = f"{opening}{context.text}"
    return AnswerLine(text=text, citations=(piece.id,), answering=answering)


def sentence_in_context(note: str, piece: Evidence) -> _Context:
    """Return a sentence of a note with the ones before and after it; alone, if it is not found."""
    try:
        sentences = split_note(note)
    except CallerError:
        sentences = ()
    for index, sentence in enumerate(sentences):
        is_place = piece.start_char_index in (None, sentence.start_char_index)
        if is_place and sentence.text == piece.text:
            before = sentences[max(0, index - _SENTENCES_AROUND) : index]
            after = sentences[index + 1 : index + 1 + _SENTENCES_AROUND]
            return _joined(
                [each.text for each in before], piece.text, [each.text for each in after]
            )
    return _Context(piece.text, 0, len(piece.text))


def _joined(before: list[str], text: str, after: list[str]) -> _Context:
    opening = "".join(f"{sentence} " for sentence in before)
    ending = "".join(f" {sentence}" for sentence in after)
    return _Context(f"{opening}{text}{ending}", len(opening), len(opening) + len(text))


def _resource(record: Record | None, name: str) -> Resource | None:
    resource_type, _, resource_id = name.partition("/")
    if record is None or not resource_id:
        return None
    try:
        return record.get(resource_type, resource_id)
    except FhirError:
        return None


def _resource_text(piece: Evidence, resource: Resource | None) -> str:
    """The type, the date, what it says, and who ordered, did or wrote it."""
    date = f" of {piece.date[:10]}" if piece.date else ""
    text = piece.text
    if resource is not None:
        name = clean_name(display_name(resource))
        text = text if name.lower() in text.lower() else name or text
    who = next(_people(resource), "")
    by = f", by {who}" if who else ""
    return f"{piece.id.partition('/')[0]}{date}: {text}{by}"


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

    A remark says how many lines were left out; without any line nothing is found.
    """
    outside = {
        piece.id
        for piece in answer.evidence
        if piece.kind == "sentence" and not (piece.date and limit.holds(piece.date))
    }
    kept = tuple(line for line in answer.lines if not _rests_on(line, outside))
    if len(kept) == len(answer.lines):
        return answer
    count = len(answer.lines) - len(kept)
    lines = "1 line" if count == 1 else f"{count} lines"
    remark = f"Left out: {lines} of notes that are not dated {limit.words}."
    cited = {name for line in kept for name in line.citations}
    changes: dict[str, object] = {
        "lines": kept,
        "evidence": tuple(piece for piece in answer.evidence if piece.id in cited),
        "remarks": (*answer.remarks, remark),
    }
    if not kept:
        message = f"No note dated {limit.words} answers this."
        changes |= {"status": Status.NOT_FOUND, "message": message}
    return answer.model_copy(update=changes)


def _rests_on(line: AnswerLine, outside: set[str]) -> bool:
    return bool(line.citations) and set(line.citations) <= outside
