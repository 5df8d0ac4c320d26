"""What recent notes say of medicines: changes, and lists that name more than the orders do."""

from archqa.asking.chart.statement_conflicts import is_ended
from archqa.briefing.drafts import SectionDraft
from archqa.briefing.medicines import current_rows
from archqa.briefing.note_lines import lines_where, quotation, recent_lines
from archqa.briefing.note_statements import is_allergy_line
from archqa.briefing.notes import NoteLine
from archqa.briefing.patient_rows import PatientRows
from archqa.briefing.verification import named_drugs
from archqa.notes.sections import section_kind, section_label
from archqa.terminology.concepts import find_concepts
from archqa.terminology.cues import cue_pattern

MAX_LINES = 20


def medicine_changes(patient: PatientRows) -> SectionDraft:
    """Return the lines of the last 24 months that say a change of a medicine, newest first.

    A line that states an allergy is none.
    """
    lines = [line for line in recent_lines(patient) if not is_allergy_line(line)]
    changes = lines_where(patient, lines, lambda part: says_change(part.text))
    return _section(changes, "As written; the list of orders may not show it.")


def medicines_in_notes(patient: PatientRows) -> SectionDraft:
    """Return the lines of the newest list of medicines that name one without a current order."""
    lines = [line for line in recent_lines(patient) if _is_of_list(line)]
    lists = lines_where(patient, lines, lambda part: bool(named_drugs(part.text)))
    newest = [line for line in lists if line.document == lists[0].document]
    ordered = {drug for row in current_rows(patient) for drug in named_drugs(row.name)}
    named = [line for line in newest if _taken_drugs(line) - ordered]
    return _section(named, "From the newest list of medicines in a note, as written.")


def _taken_drugs(line: NoteLine) -> set[str]:
    """The drugs of a line but those that it says are not taken."""
    concepts = {match.concept for match in find_concepts(line.text) if match.concept.kind == "drug"}
    ended = [drug for drug in concepts if is_ended(drug, line.text)]
    return named_drugs(line.text) - {name for drug in ended for name in named_drugs(drug.name)}


def says_change(text: str) -> bool:
    """Whether a sentence names a drug and says that it was begun, ended or changed."""
    return cue_pattern("medicine", "change").search(text) is not None and bool(named_drugs(text))


def _is_of_list(line: NoteLine) -> bool:
    """Whether a line stands under a heading of medicines, or has one as its label."""
    labels = (line.heading, section_label(line.text))
    is_listed = any(section_kind(label) == "medications" for label in labels)
    return is_listed and not is_allergy_line(line)


def _section(lines: list[NoteLine], message: str) -> SectionDraft:
    quotes = tuple(quotation(line) for line in lines[:MAX_LINES])
    rest = len(lines) - MAX_LINES
    more = f" {rest} earlier ones are left out." if rest > 0 else ""
    return SectionDraft(quotes, f"{message}{more}" if quotes else "")
