"""What the form says of where a question, a note and the record's text go."""

from archqa.asking.chart import chart_destinations
from archqa.asking.note import note_destinations
from archqa.errors import CallerError
from archqa.runs.destinations import describe
from archqa.settings import Settings

_ON_THIS_MACHINE = "Answered on this machine by the embedded engine"


def describe_question_destinations(settings: Settings, record: str | None) -> list[str]:
    """Return one sentence for notes and, with a record, one for patients.

    Where the settings do not fit, that is said instead: no question would be answered.
    """
    try:
        sentences = [_of_note(settings)]
        if record is not None:
            sentences.append(_of_patient(settings, record))
    except CallerError as error:
        return [str(error)]
    return sentences


def describe_own_destinations(settings: Settings, record: str | None) -> str:
    """Return the sentence of one question: about a note, or about a patient of `record`."""
    try:
        return _of_note(settings) if record is None else _of_patient(settings, record)
    except CallerError as error:
        return str(error)


def _of_note(settings: Settings) -> str:
    destinations = note_destinations(settings)
    if not destinations:
        return f"{_ON_THIS_MACHINE}: question and note are sent nowhere."
    servers = " and ".join(destination.place for destination in destinations)
    return f"The question and the note are sent to {servers}."


def _of_patient(settings: Settings, record: str) -> str:
    destinations = chart_destinations(settings, record)
    if not destinations:
        return f"{_ON_THIS_MACHINE}: what is asked about a patient is sent nowhere."
    return f"For a question about a patient, {describe(destinations)}."
