"""Asks a question in a thread: understood by what was asked before, answered, and added to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from archqa.asking.answer import Answer, AnsweredQuestion, Status
from archqa.asking.answering import answer_question
from archqa.asking.clock import clock
from archqa.asking.patient import find_patient
from archqa.asking.question import AskOptions, Question, check_source, parse_time
from archqa.asking.thread import Place, Thread, Turn
from archqa.asking.thread.evidence_in_context import notes_within, shown_evidence
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
from archqa.fhir import FhirError, Record, connect
from archqa.fhir.connection import checked_location
from archqa.query.questions.everyday import (
    NameIndex,
    PatientVocabulary,
    patient_vocabulary,
)
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
