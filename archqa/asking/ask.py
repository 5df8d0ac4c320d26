"""`archqa.ask`: one question about a note or a patient."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.asking.answer import Answer, within_words
from archqa.asking.answering import answer_question
from archqa.asking.question import (
    AskOptions,
    OnStep,
    Question,
    parse_time,
    settings_of_call,
)
from archqa.errors import without_suppressed_causes
from archqa.settings import Settings

if TYPE_CHECKING:
    from archqa.asking.thread import Thread
    from archqa.engine.encoders import OnProgress
    from archqa.llm.model import Model
    from archqa.runs.destinations import Announce


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
    on_progress: "OnProgress" = lambda _done, _total: None,
    announce: "Announce | None" = None,
    scripted: "Model | None" = None,
    **typed: Any,
) -> Answer:
    """Return the answer to a question about a note, a patient of a record, or both.

    `note` is text; `patient` is a FHIR id, an identifier (MRN) or a name in `record`, a store or a
    server. Sentences of a note are cited by number, resources as `Type/id`, sentences of a
    patient's notes as `Type/id#4`. `now` is the time at which a patient is asked about, by default
    the present; of a dead patient and of a record whose dates were shifted, its end. `context` says
    what else is known. `max_words` leaves out whole lines. `on_step` is called with each step as it
    ends, `on_progress` with the numbers of read and of all passages of a note, `announce` with the
    hosts that get record text before the first request (by default a log warning names them).
    `typed` are settings by short or full name, such as `model="gpt-4.1"`, instead of `settings`.

    With a `session`, by name or an `archqa.Thread`, a follow-up such as "and before that?" is
    understood by the last question and answer (`Answer.understood`), and the session's own note or
    patient is asked where none is named.

    Each status of the answer is a result, also that nothing was found. Raises `CallerError` for a
    wrong call, also `PatientNotFound` and `SeveralPatients` (its `details` names them),
    `InputError` if `record` is none, `CaseFailed` if a model gives no usable answer, and
    `ModelError`.
    """
    options = AskOptions(
        settings=settings_of_call(settings, typed),
        record=record,
        now=parse_time(now),
        context=context,
        max_words=max_words,
        on_step=on_step,
        on_progress=on_progress,
        announce=announce,
        scripted=scripted,
    )
    if session is None:
        answer = answer_question(
            Question.create(question, options, note=note, patient=patient)
        ).answer
    else:
        from archqa.asking.thread.ask_in_thread import ask_in_session

        answer = ask_in_session(question, session, options, note=note, patient=patient)
    return answer if max_words is None else within_words(answer, max_words)
