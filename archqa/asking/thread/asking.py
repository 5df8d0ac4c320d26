"""Asks a question in a thread: understood by what was asked before, answered, and added to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from archqa.asking.answer import Answer, AnsweredQuestion, Status
from archqa.asking.ask import answer_question
from archqa.asking.clock import clock
from archqa.asking.patient import find_patient
from archqa.asking.question import AskOptions, Question, check_source, parse_time
from archqa.asking.thread.evidence_in_context import shown_evidence
from archqa.asking.thread.follow_up import (
    NoQuestion,
    ShowEvidence,
    Standalone,
    Unclear,
    resolve,
)
from archqa.asking.thread.notes_within import notes_within
from archqa.asking.thread.session_files import SessionFolder, other_place_message
from archqa.asking.thread.turns import Place, Thread, Turn
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CallerError, CaseFailed, InputError
from archqa.fhir import FhirError, Record, connect
from archqa.fhir.connection import checked_location
from archqa.query.questions.everyday import NameIndex, PatientVocabulary, patient_vocabulary
from archqa.runs.event_loop import run_sync
from archqa.safety.arguments import as_text
from archqa.safety.base_urls import is_server_url
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings

NO_QUESTION = "Nothing is asked.\nAsk on, or begin anew."


class _Understood(NamedTuple):
    """How a question is understood, and what a model has used for that."""

    follow_up: Standalone | ShowEvidence | NoQuestion | Unclear
    usage: Usage = Usage()


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
        return ask_in_thread(question, session, options, note=note, patient=patient).answer
    folder = SessionFolder()
    thread = folder.load(session)
    before = thread.turns
    answered = ask_in_thread(question, thread, options, note=note, patient=patient, session=session)
    added = [turn for turn in thread.turns if not any(turn is former for former in before)]
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
    question = " ".join(whole_text(as_text(question, "The question")).split())
    given = Place(
        note=note,
        patient=patient,
        record=_location(options.record),
        now=options.now.isoformat() if options.now else None,
    )
    place = _place(thread.place, given, options.settings, session)
    options = options._replace(record=place.record, now=parse_time(place.now))
    understood = _understood(question, thread, place, options)
    follow_up = understood.follow_up
    if isinstance(follow_up, Standalone):
        answered = _answered(question, follow_up, place, options)
        patient_id = answered.answer.patient["id"] if answered.answer.patient else place.patient_id
        thread.place = place.model_copy(update={"patient_id": patient_id})
        thread.add(Turn.of_answer(answered.answer, follow_up.without_limit))
    elif isinstance(follow_up, ShowEvidence):
        answered = _shown(question, thread, place, options, follow_up)
    else:
        answered = AnsweredQuestion(_asked_back(question, follow_up))
    if understood.usage.calls:
        usage = sum_usage([understood.usage, answered.answer.usage])
        answered = answered._replace(answer=answered.answer.model_copy(update={"usage": usage}))
    return answered


def _understood(question: str, thread: Thread, place: Place, options: AskOptions) -> _Understood:
    """By the rules; by a model what they cannot resolve."""
    with _record(place, options.settings) as record:
        vocabulary = _vocabulary(place, record)
        try:
            follow_up = resolve(question, thread, vocabulary, _today(place, record))
        except FhirError as error:
            raise InputError(place.record or "", [f": {error}"]) from None
    if not isinstance(follow_up, Unclear) or follow_up.is_ambiguous or thread.last is None:
        return _Understood(follow_up)
    if not options.settings.prefers_model_pipeline and options.scripted is None:
        return _Understood(follow_up)
    from archqa.asking.thread.model_rewriting import rewrite_by_model

    try:
        rewriting = run_sync(rewrite_by_model(question, thread, options))
    except CaseFailed:  # No usable reply: it stays unclear.
        return _Understood(follow_up)
    if rewriting.question is None:
        return _Understood(follow_up, rewriting.usage)
    return _Understood(Standalone(rewriting.question), rewriting.usage)


def _vocabulary(place: Place, record: Record | None) -> PatientVocabulary:
    """The names in the patient's record; none for a note."""
    if record is None:
        return PatientVocabulary(tuple, lambda: NameIndex(()), lambda: NameIndex(()))
    return patient_vocabulary(record, place.patient_id)


def _answered(
    question: str, standalone: Standalone, place: Place, options: AskOptions
) -> AnsweredQuestion:
    """The answer, with the question as it was typed."""
    # The agent of threads belongs to no pipeline that answers.
    settings = options.settings.without_typed_name("agents.follow_up")
    asked = Question.create(
        standalone.question,
        options._replace(settings=settings),
        note=place.note,
        patient=place.patient_id or place.patient,
    )
    answered = answer_question(asked)
    understood = None if standalone.question == question else standalone.question
    changes = {"question": question, "understood": understood}
    answer = answered.answer.model_copy(update=changes)
    if standalone.limit is not None:
        answer = notes_within(answer, standalone.limit)
    return answered._replace(answer=answer)


def _shown(
    question: str, thread: Thread, place: Place, options: AskOptions, asked: ShowEvidence
) -> AnsweredQuestion:
    """The evidence of the last answer; what was asked last stays so."""
    last = thread.last
    assert last is not None
    turn = last.model_copy(update={"question": question})
    with _record(place, options.settings) as record:
        try:
            shown = shown_evidence(turn, place, record, is_doubt=asked.is_doubt)
        except FhirError as error:
            raise InputError(place.record or "", [f": {error}"]) from None
        patient = find_patient(record, place.patient_id).as_json if record else None
    thread.add(turn)
    understood = f"Show the evidence of the answer to: {last.understood}"
    changes = {"patient": patient, "understood": understood}
    return AnsweredQuestion(shown.model_copy(update=changes))


@contextmanager
def _record(place: Place, settings: Settings) -> Iterator[Record | None]:
    if not place.patient_id or place.record is None:
        yield None
        return
    with connect(place.record, allow_plain_http=settings.allow_plain_http) as record:
        yield record


def _asked_back(question: str, follow_up: NoQuestion | Unclear) -> Answer:
    return Answer(
        question=question,
        status=Status.NOT_UNDERSTOOD,
        message=follow_up.message if isinstance(follow_up, Unclear) else NO_QUESTION,
        not_understood=follow_up.words if isinstance(follow_up, Unclear) else (),
    )


def _place(own: Place | None, given: Place, settings: Settings, session: str) -> Place:
    """The place of a thread, with what is given. Raises `CallerError` for another one."""
    if own is None:
        check_source(given.note, given.patient, given.record)
        return given
    is_same_record = given.record in (None, own.record)
    is_same_note = given.note in (None, own.note)
    if not is_same_record or not is_same_note or not _is_same_patient(own, given, settings):
        raise CallerError(other_place_message(session))
    return own.model_copy(update={"now": given.now or own.now})


def _is_same_patient(own: Place, given: Place, settings: Settings) -> bool:
    if given.patient is None or given.patient in (own.patient, own.patient_id):
        return True
    if own.patient is None or own.record is None:
        return False
    with connect(own.record, allow_plain_http=settings.allow_plain_http) as record:
        return find_patient(record, given.patient).id == own.patient_id


def _location(record: str | Path | None) -> str | None:
    """The record's address as it is from any folder."""
    if record is None or is_server_url(str(record)):
        return None if record is None else str(record)
    return str(Path(checked_location(record)).resolve())


def _today(place: Place, record: Record | None) -> date:
    """The date of the questions; the dates of a record may be shifted into the future."""
    now = parse_time(place.now)
    if record is None:
        return now.date() if now else date.today()
    return clock(record, place.patient_id, now).now.date()
