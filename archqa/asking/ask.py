"""`archqa.ask`: one question about a note or a patient."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.asking.answer import Answer, AnsweredQuestion, within_words
from archqa.asking.models import ModelBackends
from archqa.asking.question import AskOptions, OnStep, Question, check_settings, parse_time
from archqa.errors import CallerError, without_suppressed_causes
from archqa.runs.event_loop import run_sync
from archqa.settings import Settings, load_settings

if TYPE_CHECKING:
    from archqa.asking.thread import Thread
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
    ends, `announce` with the hosts that get record text before the first request (by default a log
    warning names them). `typed` are settings by short or full name, such as `model="gpt-4.1"`,
    instead of `settings`.

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
    options = AskOptions(
        settings=settings or load_settings(typed=typed),
        record=record,
        now=parse_time(now),
        context=context,
        max_words=max_words,
        on_step=on_step,
        announce=announce,
        scripted=scripted,
    )
    if session is None:
        asked = Question.create(question, options, note=note, patient=patient)
        answer = answer_question(asked).answer
    else:
        from archqa.asking.thread.ask_in_thread import ask_in_session

        answer = ask_in_session(question, session, options, note=note, patient=patient)
    return answer if max_words is None else within_words(answer, max_words)


def answer_question(question: Question) -> AnsweredQuestion:
    """Return the answer to a question that stands by itself. Raises as `ask`."""
    check_settings(question.settings, of_patient=question.patient is not None)
    return run_sync(_answer_alone(question))


async def _answer_alone(question: Question) -> AnsweredQuestion:
    models = ModelBackends(question.options)
    try:
        return await answer_with_models(question, models)
    finally:
        await models.close()


async def answer_with_models(question: Question, models: ModelBackends) -> AnsweredQuestion:
    """Return the answer to a question, given the models that it shares with others."""
    # What answers from a note and what answers from a chart import much that the other needs not.
    if question.patient is None:
        from archqa.asking.note import answer_from_note

        return await answer_from_note(question, models)
    from archqa.asking.chart import answer_from_chart

    return await answer_from_chart(question, models)
