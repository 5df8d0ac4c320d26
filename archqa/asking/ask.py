"""`archqa.ask`: one question about a note or a patient."""

from datetime import datetime
from pathlib import Path
from typing import Any

from archqa.asking.answer import Answer
from archqa.asking.length import within_words
from archqa.asking.note import OnStep, ask_note
from archqa.errors import CallerError, without_suppressed_causes
from archqa.llm.model import Model
from archqa.runs.destinations import Announce
from archqa.settings import Settings, load_settings


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

    Each status of the answer is a result, also that nothing was found. Raises `CallerError` for a
    wrong call, also `PatientNotFound` and `SeveralPatients` (its `details` names them),
    `InputError` if `record` is none, `CaseFailed` if a model gives no usable answer, and
    `ModelError`.
    """
    if settings is not None and typed:
        raise CallerError("Both settings and single settings were given.\nPut them into one.")
    settings = settings or load_settings(typed=typed)
    check_place(note, patient, record)
    if patient is None:
        answer = ask_note(
            question, note or "", settings, on_step=on_step, announce=announce, scripted=scripted
        )
    else:
        from archqa.asking.chart import ask_patient  # A question about a note does not need it.

        answer = ask_patient(
            question,
            patient,
            record or "",
            settings,
            context=context,
            now=parse_time(now),
            note=note or "",
            on_step=on_step,
            announce=announce,
            scripted=scripted,
        )
    return answer if max_words is None else within_words(answer, max_words)


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
