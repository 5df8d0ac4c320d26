"""Asks a question in a thread: understood by what was asked before, answered, and added to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from archqa.asking.answer import Answer, Status
from archqa.asking.ask import check_place, parse_time
from archqa.asking.chart import AnsweredChart
from archqa.asking.clock import clock
from archqa.asking.note import OnStep
from archqa.asking.patient import find_patient
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
from archqa.llm.model import Model
from archqa.query.everyday import NameIndex, PatientVocabulary, patient_vocabulary
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.safety.arguments import as_text
from archqa.safety.base_urls import is_server_url
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings

PERFORMER = "archqa, from the last question"

NO_QUESTION = "Nothing is asked.\nAsk on, or begin anew."

AnswerPlace = Callable[[str, Place], AnsweredChart]
"""Answers a question that stands by itself."""


class Asking(NamedTuple):
    """What the questions of a thread are answered with."""

    settings: Settings
    on_step: OnStep = lambda _: None
    announce: Announce | None = None
    scripted: Model | None = None


class _Understood(NamedTuple):
    """How a question is understood, and what a model has used for that."""

    follow_up: Standalone | ShowEvidence | NoQuestion | Unclear
    usage: Usage = Usage()


def ask_in_session(
    question: str, session: "str | Thread", given: Place, asking: Asking, answer: AnswerPlace
) -> Answer:
    """Return the answer to a question in a session, by its name, or in a thread.

    The session's own patient, record or note is asked unless `given` names it. Raises
    `CallerError` where `given` is another one, and as `answer` does.
    """
    if isinstance(session, Thread):
        return ask_in_thread(question, session, given, asking, answer).answer
    folder = SessionFolder()
    thread = folder.load(session)
    before = thread.turns
    answered = ask_in_thread(question, thread, given, asking, answer, name=session)
    added = [turn for turn in thread.turns if not any(turn is former for former in before)]
    if added and thread.place is not None:
        folder.add(session, thread.place, added)
    return answered.answer


def ask_in_thread(
    question: str,
    thread: Thread,
    given: Place,
    asking: Asking,
    answer: AnswerPlace,
    *,
    name: str = "",
) -> AnsweredChart:
    """Return the answer to a question in a thread, and add the turn to it.

    What was not understood, and thanks, are no turns: the question before stays the last.
    """
    question = " ".join(whole_text(as_text(question, "The question")).split())
    place = _place(thread.place, given, asking.settings, name)
    understood = _understood(question, thread, place, asking)
    follow_up = understood.follow_up
    if isinstance(follow_up, Standalone):
        answered = _answered(question, follow_up, place, answer)
        thread.place = _with_patient(place, answered.answer)
        thread.add(Turn.of_answer(answered.answer, follow_up.without_limit))
    elif isinstance(follow_up, ShowEvidence):
        answered = _shown(question, thread, place, asking.settings, follow_up)
    else:
        answered = AnsweredChart(_asked_back(question, follow_up), None)
    return _with_usage(answered, understood.usage)


def _understood(question: str, thread: Thread, place: Place, asking: Asking) -> _Understood:
    """By the rules; by a model what they cannot resolve."""
    with _record(place, asking.settings) as record:
        vocabulary = _vocabulary(place, record)
        try:
            follow_up = resolve(question, thread, vocabulary, _today(place, record))
        except FhirError as error:
            raise InputError(place.record or "", [f": {error}"]) from None
    if not isinstance(follow_up, Unclear) or follow_up.is_ambiguous or thread.last is None:
        return _Understood(follow_up)
    if not asking.settings.prefers_model_pipeline and asking.scripted is None:
        return _Understood(follow_up)
    return _by_model(question, thread, asking, follow_up)


def _by_model(question: str, thread: Thread, asking: Asking, unclear: Unclear) -> _Understood:
    from archqa.asking.thread.model_rewriting import rewrite_by_model

    work = rewrite_by_model(
        question,
        thread,
        asking.settings,
        on_step=asking.on_step,
        announce=asking.announce,
        scripted=asking.scripted,
    )
    try:
        rewriting = run_sync(work)
    except CaseFailed:  # No usable reply: it stays unclear.
        return _Understood(unclear)
    if rewriting.question is None:
        return _Understood(unclear, rewriting.usage)
    return _Understood(Standalone(rewriting.question), rewriting.usage)


def _vocabulary(place: Place, record: Record | None) -> PatientVocabulary:
    """The names in the patient's record; none for a note."""
    if record is None:
        return PatientVocabulary(tuple, lambda: NameIndex(()), lambda: NameIndex(()))
    return patient_vocabulary(record, place.patient_id)


def _answered(
    question: str, standalone: Standalone, place: Place, answer: AnswerPlace
) -> AnsweredChart:
    """The answer, with the question as it was typed."""
    answered = answer(standalone.question, place)
    understood = None if standalone.question == question else standalone.question
    changed = answered.answer.model_copy(update={"question": question, "understood": understood})
    if standalone.limit is not None:
        changed = notes_within(changed, standalone.limit)
    return answered._replace(answer=changed)


def _shown(
    question: str, thread: Thread, place: Place, settings: Settings, asked: ShowEvidence
) -> AnsweredChart:
    """The evidence of the last answer; what was asked last stays so."""
    last = thread.last
    assert last is not None
    turn = last.model_copy(update={"question": question})
    with _record(place, settings) as record:
        try:
            shown = shown_evidence(turn, place, record, is_doubt=asked.is_doubt)
        except FhirError as error:
            raise InputError(place.record or "", [f": {error}"]) from None
        patient = find_patient(record, place.patient_id).as_json if record else None
    thread.add(turn)
    understood = f"Show the evidence of the answer to: {last.understood}"
    changes = {"patient": patient, "understood": understood}
    return AnsweredChart(shown.model_copy(update=changes), None)


@contextmanager
def _record(place: Place, settings: Settings) -> Iterator[Record | None]:
    if not place.patient_id or place.record is None:
        yield None
        return
    with connect(place.record, allow_plain_http=settings.allow_plain_http) as record:
        yield record


def _asked_back(question: str, follow_up: NoQuestion | Unclear) -> Answer:
    is_unclear = isinstance(follow_up, Unclear)
    return Answer(
        question=question,
        status=Status.NOT_UNDERSTOOD,
        message=follow_up.message if isinstance(follow_up, Unclear) else NO_QUESTION,
        not_understood=follow_up.words if isinstance(follow_up, Unclear) else (),
        performer=PERFORMER if is_unclear else "archqa",
    )


def _with_usage(answered: AnsweredChart, usage: Usage) -> AnsweredChart:
    if not usage.calls:
        return answered
    total = sum_usage([usage, answered.answer.usage])
    return answered._replace(answer=answered.answer.model_copy(update={"usage": total}))


def _place(own: Place | None, given: Place, settings: Settings, name: str) -> Place:
    """The place of a thread, with what is given besides. Raises `CallerError` for another one."""
    given = given.model_copy(update={"record": _location(given.record)})
    if own is None:
        check_place(given.note, given.patient, given.record)
        return given
    is_same_record = given.record in (None, own.record)
    is_same_note = given.note in (None, own.note)
    if not is_same_record or not is_same_note or not _is_same_patient(own, given, settings):
        raise CallerError(other_place_message(name))
    return own.model_copy(update={"now": given.now or own.now})


def _is_same_patient(own: Place, given: Place, settings: Settings) -> bool:
    if given.patient is None or given.patient in (own.patient, own.patient_id):
        return True
    if own.patient is None or own.record is None:
        return False
    with connect(own.record, allow_plain_http=settings.allow_plain_http) as record:
        return find_patient(record, given.patient).id == own.patient_id


def _location(record: str | None) -> str | None:
    """The record's address as it is from any folder."""
    if record is None or is_server_url(record):
        return record
    return str(Path(checked_location(record)).resolve())


def _with_patient(place: Place, answer: Answer) -> Place:
    patient_id = answer.patient["id"] if answer.patient else place.patient_id
    return place.model_copy(update={"patient_id": patient_id})


def _today(place: Place, record: Record | None) -> date:
    """The date of the questions; the dates of a record may be shifted into the future."""
    now = parse_time(place.now)
    if record is None:
        return now.date() if now else date.today()
    return clock(record, place.patient_id, now).now.date()
