"""The sections of a summary, in their order."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from archqa.briefing.allergies import allergies
from archqa.briefing.drafts import SectionDraft
from archqa.briefing.follow_ups import follow_ups
from archqa.briefing.immunizations import immunizations
from archqa.briefing.medicine_notes import medicine_changes, medicines_in_notes
from archqa.briefing.medicines import medicines
from archqa.briefing.note_statements import wishes
from archqa.briefing.patient_rows import PatientRows
from archqa.briefing.person import person
from archqa.briefing.problems import active_problems, circumstances, resolved_problems
from archqa.briefing.procedures import procedures
from archqa.briefing.results import labs, vital_signs
from archqa.briefing.visits import visits
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError


class SectionKind(NamedTuple):
    """A section: its title, what writes its lines, and what is said where there are none."""

    name: str
    title: str
    write: Callable[[PatientRows], SectionDraft]
    empty: str


SECTIONS = (
    SectionKind("person", "The patient", person, "Neither sex nor date of birth is recorded."),
    SectionKind("allergies", "Allergies and intolerances", allergies, "No allergy is recorded."),
    SectionKind(
        "wishes",
        "Code status, proxy and wishes",
        wishes,
        "No such statement was found.",
    ),
    SectionKind("problems", "Problems", active_problems, "No active problem is recorded."),
    SectionKind("medicines", "Current medicines", medicines, "No medicine is recorded."),
    SectionKind(
        "medicines_in_notes",
        "Medicines in notes without a current order",
        medicines_in_notes,
        "None was found in a list of medicines of the notes of the last 24 months.",
    ),
    SectionKind(
        "medicine_changes",
        "Changes of medicines said in notes",
        medicine_changes,
        "No change of a medicine was found in the notes of the last 24 months.",
    ),
    SectionKind(
        "follow_ups",
        "Follow-ups said in notes",
        follow_ups,
        "No follow-up was found in the notes of the last 24 months.",
    ),
    SectionKind("visits", "Last visits", visits, "No visit is recorded."),
    SectionKind("vital_signs", "Last vital signs", vital_signs, "No vital sign is recorded."),
    SectionKind("labs", "Last laboratory results", labs, "No laboratory result is recorded."),
    SectionKind("procedures", "Procedures", procedures, "No procedure is recorded."),
    SectionKind("immunizations", "Immunizations", immunizations, "No immunization is recorded."),
    SectionKind(
        "resolved",
        "Resolved in the last 12 months",
        resolved_problems,
        "No problem is recorded as resolved in the last 12 months.",
    ),
    SectionKind(
        "circumstances",
        "Circumstances recorded as findings",
        circumstances,
        "No such finding is recorded as active.",
    ),
)


def chosen_sections(names: Sequence[str] | None) -> tuple[SectionKind, ...]:
    """Return the sections of these names, in the order of a summary; all of them for None.

    Raises `CallerError` for an unknown name.
    """
    if names is None:
        return SECTIONS
    known = [section.name for section in SECTIONS]
    wanted = {name.strip().replace("-", "_"): None for name in names}
    if not wanted:
        raise CallerError(f"No section is named.\nThere are: {', '.join(known)}.")
    for name in wanted:
        if name not in known:
            raise unknown_name("section", name, known)
    return tuple(section for section in SECTIONS if section.name in wanted)
