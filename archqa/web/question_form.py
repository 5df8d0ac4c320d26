"""What a person filled in to ask, and what is wrong with it, field by field."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from archqa.asking.question import parse_time
from archqa.errors import CallerError

MAX_QUESTION_LENGTH = 2000

NOTE, PATIENT, BOTH = "note", "patient", "both"


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
    return QuestionForm(
        question=" ".join(fields.get("question", "").split()),
        about=about if about in (NOTE, PATIENT, BOTH) else _filled_in(note, patient),
        note=note,
        patient=patient,
        now=fields.get("now", "").strip(),
    )


def _filled_in(note: str, patient: str) -> str:
    if patient:
        return BOTH if note.strip() else PATIENT
    return NOTE


def form_errors(form: QuestionForm, *, has_record: bool) -> dict[str, str]:
    """Return what is wrong by the name of the field, in the order of the page."""
    errors: dict[str, str] = {}
    for field, message in [*_question_errors(form.question), *_place_errors(form, has_record)]:
        errors.setdefault(field, message)
    return errors


def _question_errors(question: str) -> Iterator[tuple[str, str]]:
    if not question:
        yield "question", "There is no question. Write one."
    if len(question) > MAX_QUESTION_LENGTH:
        yield "question", f"A question has at most {MAX_QUESTION_LENGTH} characters; shorten it."


def _place_errors(form: QuestionForm, has_record: bool) -> Iterator[tuple[str, str]]:
    has_note = bool(form.note.strip())
    if form.is_about_note and not has_note:
        yield "note", "There is no note. Paste one, or choose to ask about a patient."
    if has_note and not form.is_about_note:
        yield "note", "A note is pasted, but not asked. Choose both together, or empty this field."
    if not form.is_about_patient:
        yield from _unused_errors(form)
    elif not has_record:
        yield "patient", "This server has no record: it was started without --record."
    elif not form.patient:
        yield "patient", "Name the patient: by name, identifier (MRN) or FHIR id."
    if form.is_about_patient:
        yield from _time_errors(form.now)


def _unused_errors(form: QuestionForm) -> Iterator[tuple[str, str]]:
    """Yield what would be left out in silence where a note alone is asked."""
    choice = "Choose both together, or empty this field."
    if form.patient:
        yield "patient", f"A patient is named, but the note alone is asked. {choice}"
    if form.now:
        yield "now", f"A date belongs to a patient, and the note alone is asked. {choice}"


def _time_errors(now: str) -> Iterator[tuple[str, str]]:
    try:
        parse_time(now or None)
    except CallerError as error:
        yield "now", " ".join(str(error).split())
