"""The lines of a patient's notes that say something of their own, and how a line is quoted."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from archqa.briefing.drafts import LineDraft
from archqa.briefing.notes import NoteLine, Notes, NoteSentence, folded, is_between, read_notes
from archqa.briefing.patient_rows import PatientRows
from archqa.chart.templated import own_texts
from archqa.query.questions.everyday import patient_vocabulary
from archqa.terminology.concepts import find_concepts

WITHIN = timedelta(days=730)

_SEMANTIC_TAG = re.compile(r"\((?:disorder|finding|procedure|situation|regime/therapy|observable)")
"""The tag of a SNOMED CT name: people do not write it, a template does."""

QUOTE_MARKS = str.maketrans({"“": '"', "”": '"'})
"""Quotation marks of a note are told from those around a quotation."""


def patient_notes(patient: PatientRows) -> Notes:
    """Return the notes up to the time of the summary, read once. Raises as the record does."""
    return patient.chart.get_or_compute(
        "notes", lambda: read_notes(patient.record, patient.patient_id, patient.now)
    )


def own_lines(patient: PatientRows) -> list[NoteLine]:
    """Return the lines with a sentence of their own, each where it stands last, oldest first."""
    return patient.chart.get_or_compute("own lines", lambda: _own_lines(patient))


def recent_lines(patient: PatientRows) -> list[NoteLine]:
    """Return the lines of the last 24 months with a sentence of their own, oldest note first."""
    return [line for line in own_lines(patient) if is_recent(line.date, patient.now)]


def is_recent(date: str, now: datetime) -> bool:
    """Whether a date lies in the last 24 months."""
    return is_between(date, now - WITHIN, now)


def _own_lines(patient: PatientRows) -> list[NoteLine]:
    own = _own_texts(patient)
    latest: dict[str, NoteLine] = {}
    for line in patient_notes(patient).lines:
        parts = tuple(part for part in line.parts if folded(part.text) in own)
        if parts:
            latest.pop(folded(line.text), None)
            latest[folded(line.text)] = line
    return list(latest.values())


def _own_texts(patient: PatientRows) -> frozenset[str]:
    """The texts that no program wrote around names of the record."""
    return patient.chart.get_or_compute("own texts", lambda: _read_own_texts(patient))


def _read_own_texts(patient: PatientRows) -> frozenset[str]:
    notes = patient_notes(patient)
    if not notes.sentences:
        return frozenset()
    parts = [part.text for line in notes.lines for part in line.parts]
    texts = [*(sentence.text for sentence in notes.sentences), *parts]
    by_folded = {folded(text): text for text in texts}
    displays = patient_vocabulary(patient.record, patient.patient_id).displays
    latest = list(by_folded.values())
    own = own_texts(latest, frozenset(display.casefold() for display in displays))
    return frozenset(folded(latest[i]) for i in own if not _SEMANTIC_TAG.search(latest[i]))


def lines_where(
    patient: PatientRows, lines: Iterable[NoteLine], is_wanted: Callable[[NoteSentence], bool]
) -> list[NoteLine]:
    """Return the lines of which a sentence of their own is wanted, the newest note first."""
    own = _own_texts(patient)
    found = [
        line
        for line in lines
        if any(folded(part.text) in own and is_wanted(part) for part in line.parts)
    ]
    return newest_first(found)


def lines_naming(patient: PatientRows, concept: str) -> list[NoteLine]:
    """Return the recent lines with a sentence of their own that names a concept, newest first."""
    index = patient.chart.get_or_compute("lines by concept", lambda: _lines_by_concept(patient))
    return index.get(concept, [])


def _lines_by_concept(patient: PatientRows) -> dict[str, list[NoteLine]]:
    own = _own_texts(patient)
    index: dict[str, list[NoteLine]] = {}
    for line in newest_first(recent_lines(patient)):
        parts = [part.text for part in line.parts if folded(part.text) in own]
        names = {match.concept.name for text in parts for match in find_concepts(text)}
        for name in names:
            index.setdefault(name, []).append(line)
    return index


def newest_first(lines: Sequence[NoteLine]) -> list[NoteLine]:
    """Return the lines of the newest document first, those of one document in its order."""
    documents: dict[str, list[NoteLine]] = {}
    for line in sorted(lines, key=lambda line: (line.date, line.document)):
        documents.setdefault(line.document, []).append(line)
    return [line for group in reversed(documents.values()) for line in group]


def quotation(line: NoteLine) -> LineDraft:
    """Return a line that quotes a line of a note whole, with its document, author and date."""
    return LineDraft(quoted(line), citations_of(line), line.date)


def quoted(line: NoteLine) -> str:
    """Return a line of a note in quotation marks, and where it stands."""
    place = ", ".join(filter(None, (line.parts[0].source, line.date[:10])))
    return f"“{line.text.translate(QUOTE_MARKS)}” ({place})"


def citations_of(line: NoteLine) -> tuple[str, ...]:
    """Return the ids of the sentences of a line."""
    return tuple(part.id for part in line.parts)
