"""`archqa.ask`: one question about a note or a patient."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.length import within_words
from archqa.asking.note import OnStep, ask_note
from archqa.errors import CallerError, without_suppressed_causes
from archqa.llm.model import Model
from archqa.runs.destinations import Announce
from archqa.settings import Settings, load_settings

if TYPE_CHECKING:
    from archqa.asking.thread.turns import Thread


@without_suppressed_causes
def ask(
    question: str,
    note: str | None = None,
    *,
    patient: str | None = None,
    record: str | Path | None = None,
    now: datetime | str | None = None,
    context: str = "",
    max_words: int | None = None,
    session: "str | Thread | None" = None,
    settings: Settings | None = None,
    on_step: OnStep = lambda _: None,
    announce: Announce | None = None,
    scripted: Model | None = None,
    **typed: Any,
) -> Answer:
    """Return the answer to a question about a note, a patient of a record, or both.

    `note` is text; `patient` is a FHIR id, an identifier (MRN) or a name in `record`, a store or a
    server. `now` is the time at which a patient is asked about, by default the present; of a dead
    patient and of a record whose dates were shifted, its end. `max_words` leaves out whole lines.
    `typed` are settings by short or full name, such as `model="gpt-4.1"`, instead of `settings`.

    With a `session`, by name or an `archqa.Thread`, a follow-up such as "and before that?" is
    understood by the last question and answer (`Answer.understood`), and the session's own note or
    patient is asked where none is named.

    Each status of the answer is a result, also that nothing was found. Raises `CallerError` for a
    wrong call, also `PatientNotFound` and `SeveralPatients` (its `details` names them),
    `InputError` if `record` is none, `CaseFailed` if a model gives no usable answer, and
    `ModelError`.
    """
    if settings is not None and typed:
        raise CallerError("Both settings and single settings were given.\nPut them into one.")
    asking = _Asking(settings or load_settings(typed=typed), context, on_step, announce, scripted)
    time = parse_time(now)
    if session is None:
        answer = _answer(question, _Asked(note, patient, record, time), asking)
    else:
        answer = _ask_in_session(question, session, _Asked(note, patient, record, time), asking)
    return answer if max_words is None else within_words(answer, max_words)


class _Asked(NamedTuple):
    """What is asked, and as of when."""

    note: str | None
    patient: str | None
    record: str | Path | None
    now: datetime | None


class _Asking(NamedTuple):
    """How it is answered."""

    settings: Settings
    context: str
    on_step: OnStep
    announce: Announce | None
    scripted: Model | None


def _answer(question: str, asked: _Asked, asking: _Asking) -> Answer:
    check_place(asked.note, asked.patient, asked.record)
    if asked.patient is None:
        return ask_note(
            question,
            asked.note or "",
            asking.settings,
            on_step=asking.on_step,
            announce=asking.announce,
            scripted=asking.scripted,
        )
    from archqa.asking.chart import ask_patient  # A question about a note does not need it.

    return ask_patient(
        question,
        asked.patient,
        asked.record or "",
        asking.settings,
        context=asking.context,
        now=asked.now,
        note=asked.note or "",
        on_step=asking.on_step,
        announce=asking.announce,
        scripted=asking.scripted,
    )


def _ask_in_session(
    question: str, session: "str | Thread", asked: _Asked, asking: _Asking
) -> Answer:
    """Answer in a session; it is given the time in words, to keep it in its file."""
    from archqa.asking.chart import AnsweredChart  # Without a session none is needed.
    from archqa.asking.thread.asking import Asking, ask_in_session
    from archqa.asking.thread.turns import Place

    def answer(standalone: str, place: Place) -> AnsweredChart:
        patient = place.patient_id or place.patient
        of_place = _Asked(place.note, patient, place.record, parse_time(place.now))
        return AnsweredChart(_answer(standalone, of_place, of_answer), None)

    # The agent of threads belongs to no pipeline that answers.
    settings_of_answer = asking.settings.without_typed_name("agents.follow_up")
    of_answer = asking._replace(settings=settings_of_answer)
    given = Place(
        note=asked.note,
        patient=asked.patient,
        record=None if asked.record is None else str(asked.record),
        now=asked.now.isoformat() if asked.now else None,
    )
    of_thread = Asking(asking.settings, asking.on_step, asking.announce, asking.scripted)
    return ask_in_session(question, session, given, of_thread, answer)


def check_place(note: object, patient: object, record: object) -> None:
    """Raise `CallerError` unless it is said what is asked: a note, or a patient of a record."""
    if note is None and patient is None:
        raise CallerError(
            "It is not said what to ask.\nName a note, or a patient with the record that has them."
        )
    if patient is not None and record is None:
        raise CallerError(
            "A patient is in a record.\nName the store or server with --record (record=)."
        )


def parse_time(value: datetime | str | None) -> datetime | None:
    """Return a time that is written as ISO 8601. Raises `CallerError` for what is none."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise CallerError(
            "The time of the question is no date.\nWrite it as 2026-11-23 or 2026-11-23T14:30."
        ) from None
