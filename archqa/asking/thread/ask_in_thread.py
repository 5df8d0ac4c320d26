"""Asks a question in a thread: understood by what was asked before, answered, and added to it.

The evidence of the last answer can be shown in full: sentences with those around them, resources
with who and when.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from archqa.asking.answer import (
    Answer,
    AnsweredQuestion,
    AnswerLine,
    AnswerSpan,
    Evidence,
    Status,
    cited_evidence,
)
from archqa.asking.answering import answer_question
from archqa.asking.clock import clock
from archqa.asking.patient import find_patient
from archqa.asking.question import AskOptions, Question, check_source, parse_time
from archqa.asking.thread import Place, Thread, Turn
from archqa.asking.thread.changed_question import TimeLimit
from archqa.asking.thread.follow_up import (
    FollowUp,
    ShowEvidence,
    Standalone,
    Unclear,
    resolve,
)
from archqa.asking.thread.session_files import SessionFolder, other_place_message
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CallerError, CaseFailed, InputError
from archqa.fhir import FhirError, Record, Resource, connect, display_name
from archqa.fhir.connection import checked_location
from archqa.notes.documents import Document, patient_documents
from archqa.notes.sentences import split_note
from archqa.query.questions.everyday import (
    NameIndex,
    PatientVocabulary,
    patient_vocabulary,
)
from archqa.query.wording.words import clean_name
from archqa.runs.event_loop import run_sync
from archqa.safety.arguments import as_text
from archqa.safety.server_urls import is_server_url
from archqa.settings import Settings

NO_QUESTION = "Nothing is asked.\nAsk on, or begin anew."


def ask_in_session(
    question: str,
    session: "str | Thread",
    options: AskOptions,
    *,
    note: str | None = None,
    patient: str | None = None,
) -> Answer:
    """Return the answer to a question in a session, by its name, or in a thread.

    The session's own patient, record or note is asked unless one is given. Raises `CallerError`
    where another one is given, and as `answer_question` does.
    """
    if isinstance(session, Thread):
        return ask_in_thread(
            question, session, options, note=note, patient=patient
        ).answer
    folder = SessionFolder()
    thread = folder.load(session)
    before = thread.turns
    answered = ask_in_thread(
        question, thread, options, note=note, patient=patient, session=session
    )
    added = [
        turn for turn in thread.turns if not any(turn is former for former in before)
    ]
    if added and thread.place is not None:
        folder.add(session, thread.place, added)
    return answered.answer


def ask_in_thread(
    question: str,
    thread: Thread,
    options: AskOptions,
    *,
    note: str | None = None,
    patient: str | None = None,
    session: str = "",
) -> AnsweredQuestion:
    """Return the answer to a question in a thread, and add the turn to it.

    What was not understood, and thanks, are no turns: the question before stays the last.
    """
    question = " ".join(as_text(question, "The question").split())
    record_location: str | None = None
    if options.record is not None:
        record_location = str(options.record)
        if not is_server_url(record_location):
            # As it is from any folder.
            record_location = str(Path(checked_location(options.record)).resolve())
    requested = Place(
        note=note,
        patient=patient,
        record=record_location,
        now=options.now.isoformat() if options.now else None,
    )
    if thread.place is None:
        check_source(note, patient, record_location)
        place = requested
    elif _is_same_place(thread.place, requested, options.settings):
        place = thread.place.model_copy(
            update={"now": requested.now or thread.place.now}
        )
    else:
        raise CallerError(other_place_message(session))
    options = options._replace(record=place.record, now=parse_time(place.now))
    follow_up, usage = _understand(question, thread, place, options)
    if isinstance(follow_up, Standalone):
        answered = _answer(question, follow_up, place, options)
        patient_id = (
            answered.answer.patient["id"]
            if answered.answer.patient
            else place.patient_id
        )
        thread.place = place.model_copy(update={"patient_id": patient_id})
        thread.add(Turn.of_answer(answered.answer, follow_up.without_limit))
    elif isinstance(follow_up, ShowEvidence):
        answered = _show_evidence(question, thread, place, options, follow_up)
    else:
        words: tuple[str, ...] = ()
        message = NO_QUESTION
        if isinstance(follow_up, Unclear):
            words, message = follow_up.words, follow_up.message
        answer = Answer(
            question=question,
            status=Status.NOT_UNDERSTOOD,
            message=message,
            not_understood=words,
        )
        answered = AnsweredQuestion(answer)
    if usage.calls:
        total = sum_usage([usage, answered.answer.usage])
        answered = answered._replace(
            answer=answered.answer.model_copy(update={"usage": total})
        )
    return answered


def _understand(
    question: str, thread: Thread, place: Place, options: AskOptions
) -> tuple[FollowUp, Usage]:
    """Return how a question is understood, and what a model has used for that.

    By the rules; by a model what they cannot resolve.
    """
    now = parse_time(place.now)
    with _open_record(place, options.settings) as record:
        if record is None:  # A note has no names of a record.
            vocabulary = PatientVocabulary(
                tuple, lambda: NameIndex(()), lambda: NameIndex(())
            )
            today = now.date() if now else date.today()
        else:
            vocabulary = patient_vocabulary(record, place.patient_id)
            # The dates of a record may be shifted into the future.
            today = clock(record, place.patient_id, now).now.date()
        follow_up = resolve(question, thread, vocabulary, today)
    if (
        not isinstance(follow_up, Unclear)
        or follow_up.is_ambiguous
        or thread.last is None
    ):
        return follow_up, Usage()
    if not options.settings.prefers_model_pipeline and options.scripted is None:
        return follow_up, Usage()
    from archqa.asking.thread.model_rewriting import rewrite_by_model

    try:
        rewriting = run_sync(rewrite_by_model(question, thread, options))
    except CaseFailed:  # No usable reply: it stays unclear.
        return follow_up, Usage()
    if rewriting.question is None:
        return follow_up, rewriting.usage
    return Standalone(rewriting.question), rewriting.usage


def _answer(
    question: str, standalone: Standalone, place: Place, options: AskOptions
) -> AnsweredQuestion:
    """Return the answer, with the question as it was typed."""
    # The agent of threads belongs to no pipeline that answers.
    settings = options.settings.without_typed_name("agents.follow_up")
    complete = Question.create(
        standalone.question,
        options._replace(settings=settings),
        note=place.note,
        patient=place.patient_id or place.patient,
    )
    answered = answer_question(complete)
    understood = None if standalone.question == question else standalone.question
    changes = {"question": question, "understood": understood}
    answer = answered.answer.model_copy(update=changes)
    if standalone.limit is not None:
        answer = notes_within(answer, standalone.limit)
    return answered._replace(answer=answer)


def _show_evidence(
    question: str,
    thread: Thread,
    place: Place,
    options: AskOptions,
    request: ShowEvidence,
) -> AnsweredQuestion:
    """Return the evidence of the last answer; what was asked last stays so."""
    last = thread.last
    assert last is not None
    turn = last.model_copy(update={"question": question})
    with _open_record(place, options.settings) as record:
        answer = shown_evidence(turn, place, record, is_doubt=request.is_doubt)
        patient = find_patient(record, place.patient_id).as_json if record else None
    thread.add(turn)
    understood = f"Show the evidence of the answer to: {last.understood}"
    changes = {"patient": patient, "understood": understood}
    return AnsweredQuestion(answer.model_copy(update=changes))


@contextmanager
def _open_record(place: Place, settings: Settings) -> Iterator[Record | None]:
    """Open the record of a thread; a `FhirError` of it is raised as `InputError`."""
    if not place.patient_id or place.record is None:
        yield None
        return
    with connect(place.record, allow_plain_http=settings.allow_plain_http) as record:
        try:
            yield record
        except FhirError as error:
            raise InputError(place.record, [f": {error}"]) from None


def _is_same_place(own: Place, requested: Place, settings: Settings) -> bool:
    """Whether nothing is requested, or what a thread is about."""
    if requested.record not in (None, own.record) or requested.note not in (
        None,
        own.note,
    ):
        return False
    if requested.patient in (None, own.patient, own.patient_id):
        return True
    if own.patient is None or own.record is None or requested.patient is None:
        return False
    with connect(own.record, allow_plain_http=settings.allow_plain_http) as record:
        return find_patient(record, requested.patient).id == own.patient_id


NOT_ASKED_AGAIN = "This is what the last answer rests on; nothing was concluded anew."

_MAX_EVIDENCE_LINES = 20
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
    for piece in evidence[:_MAX_EVIDENCE_LINES]:
        if piece.kind == "sentence":
            lines.append(
                _sentence_line(piece, documents.get(_document_name(piece)), record)
            )
        else:
            lines.append(_resource_line(piece, _resource(record, piece.id)))
    remarks = [NOT_ASKED_AGAIN] if is_doubt else []
    if len(evidence) > _MAX_EVIDENCE_LINES:
        remarks.append(f"Not shown: {len(evidence) - _MAX_EVIDENCE_LINES} more.")
    return Answer(
        question=turn.question,
        status=Status.ANSWERED,
        lines=tuple(lines),
        evidence=evidence[:_MAX_EVIDENCE_LINES],
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
