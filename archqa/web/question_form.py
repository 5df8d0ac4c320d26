"""The form of a question: its fields, what is wrong with them, and where the text goes."""

from collections.abc import Mapping
from typing import NamedTuple

from archqa.asking.chart import chart_destinations
from archqa.asking.note import note_destinations
from archqa.asking.question import parse_time
from archqa.errors import CallerError
from archqa.runs.destinations import describe
from archqa.settings import Settings

MAX_QUESTION_LENGTH = 2000

NOTE, PATIENT, BOTH = "note", "patient", "both"

_ON_THIS_MACHINE = "Answered on this machine by the embedded engine"


class QuestionForm(NamedTuple):
    """The fields of the form; `about` says what is asked: a note, a patient, or both together."""

    question: str = ""
    about: str = NOTE
    note: str = ""
    patient: str = ""
    now: str = ""

    @property
    def is_about_note(self) -> bool:
        """Whether a pasted note is asked."""
        return self.about in (NOTE, BOTH)

    @property
    def is_about_patient(self) -> bool:
        """Whether a patient of the record is asked about."""
        return self.about in (PATIENT, BOTH)


def read_question_form(fields: Mapping[str, str]) -> QuestionForm:
    """Return the form of what was sent.

    A patient who was chosen among several counts as long as the name that was typed is the same.
    """
    patient = fields.get("patient", "").strip()
    if fields.get("chosen") and fields.get("chosen_for", "").strip() == patient:
        patient = fields["chosen"]
    note = fields.get("note", "")
    about = fields.get("about", "")
    if about not in (NOTE, PATIENT, BOTH):
        about = NOTE
        if patient:
            about = BOTH if note.strip() else PATIENT
    return QuestionForm(
        question=" ".join(fields.get("question", "").split()),
        about=about,
        note=note,
        patient=patient,
        now=fields.get("now", "").strip(),
    )


def form_errors(form: QuestionForm, *, has_record: bool) -> dict[str, str]:
    """Return what is wrong by the name of the field, in the order of the page."""
    errors = {}
    if not form.question:
        errors["question"] = "There is no question. Write one."
    if len(form.question) > MAX_QUESTION_LENGTH:
        errors["question"] = (
            f"A question has at most {MAX_QUESTION_LENGTH} characters; shorten it."
        )
    has_note = bool(form.note.strip())
    if form.is_about_note and not has_note:
        errors["note"] = (
            "There is no note. Paste one, or choose to ask about a patient."
        )
    if has_note and not form.is_about_note:
        errors["note"] = (
            "A note is pasted, but not asked. Choose both together, or empty this field."
        )
    if form.is_about_patient:
        if not has_record:
            errors["patient"] = (
                "This server has no record: it was started without --record."
            )
        elif not form.patient:
            errors["patient"] = (
                "Name the patient: by name, identifier (MRN) or FHIR id."
            )
        try:
            parse_time(form.now or None)
        except CallerError as error:
            errors["now"] = " ".join(str(error).split())
        return errors
    # What would be left out in silence where a note alone is asked.
    choice = "Choose both together, or empty this field."
    if form.patient:
        errors["patient"] = f"A patient is named, but the note alone is asked. {choice}"
    if form.now:
        errors["now"] = (
            f"A date belongs to a patient, and the note alone is asked. {choice}"
        )
    return errors


def destination_sentences(settings: Settings, record: str | None) -> list[str]:
    """Return where the text of notes goes and, with a record, that of patients.

    Where the settings do not fit, that is said instead: no question would be answered.
    """
    try:
        sentences = [_note_destination(settings)]
        if record is not None:
            sentences.append(_patient_destination(settings, record))
    except CallerError as error:
        return [str(error)]
    return sentences


def destination_sentence(settings: Settings, record: str | None) -> str:
    """Return where the text of one question goes: about a note, or about a patient of `record`."""
    try:
        if record is None:
            return _note_destination(settings)
        return _patient_destination(settings, record)
    except CallerError as error:
        return str(error)


def _note_destination(settings: Settings) -> str:
    destinations = note_destinations(settings)
    if not destinations:
        return f"{_ON_THIS_MACHINE}: question and note are sent nowhere."
    servers = " and ".join(destination.place for destination in destinations)
    return f"The question and the note are sent to {servers}."


def _patient_destination(settings: Settings, record: str) -> str:
    destinations = chart_destinations(settings, record)
    if not destinations:
        return f"{_ON_THIS_MACHINE}: what is asked about a patient is sent nowhere."
    return f"For a question about a patient, {describe(destinations)}."
