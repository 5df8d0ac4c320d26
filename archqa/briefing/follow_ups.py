"""Follow-ups that notes say: appointments, tests that are due or pending, referrals."""

import re
from datetime import timedelta
from functools import cache
from pathlib import Path

from archqa.asking.word_patterns import whole_word_pattern
from archqa.briefing.drafts import LineDraft, SectionDraft
from archqa.briefing.future_dates import names_later_date
from archqa.briefing.notes import NoteSentence, note_sentences
from archqa.briefing.patient_rows import PatientRows
from archqa.chart.templated import own_texts
from archqa.query.everyday import patient_vocabulary
from archqa.query.execution.rows import parse_datetime
from archqa.resources import table_rows

WITHIN = timedelta(days=730)
MAX_FOLLOW_UPS = 30

_DATA_DIR = Path(__file__).parent / "data"
_LOWER_CASE = re.compile(r"[a-zà-ÿ]")
_SEMANTIC_TAG = re.compile(r"\((?:disorder|finding|procedure|situation|regime/therapy|observable)")
"""The tag of a SNOMED CT name: people do not write it, a template does."""

_MESSAGE = "As written; whether it was done since is not judged."


def follow_ups(patient: PatientRows) -> SectionDraft:
    """Return the sentences of the last 24 months that state a plan, newest first, each once."""
    sentences = recent_sentences(patient)
    plans = newest_first([sentence for sentence in sentences if is_plan(sentence)])
    lines = [quotation(sentence) for sentence in plans[:MAX_FOLLOW_UPS]]
    message = _MESSAGE if lines else ""
    if len(plans) > len(lines):
        message = f"{message} {len(plans) - len(lines)} earlier ones are left out."
    return SectionDraft(tuple(lines), message)


def recent_sentences(patient: PatientRows) -> list[NoteSentence]:
    """Return the sentences of recent notes that say something of their own, oldest note first."""
    return patient.chart.get_or_compute("recent sentences", lambda: _read_sentences(patient))


def _read_sentences(patient: PatientRows) -> list[NoteSentence]:
    since = patient.now - WITHIN
    sentences = note_sentences(patient.record, patient.patient_id, since, patient.now)
    if not sentences:
        return []
    displays = patient_vocabulary(patient.record, patient.patient_id).displays
    latest = list({_folded(sentence.text): sentence for sentence in sentences}.values())
    own = own_texts(
        [sentence.text for sentence in latest],
        frozenset(display.casefold() for display in displays),
    )
    return [latest[i] for i in own if not _SEMANTIC_TAG.search(latest[i].text)]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def is_plan(sentence: NoteSentence) -> bool:
    """Whether a sentence says what is still to be done, or names a day after its note."""
    if states_plan(sentence.text):
        return True
    written = parse_datetime(sentence.date)
    is_later = written is not None and names_later_date(sentence.text, written.date())
    return is_later and not _pattern("not_open").search(sentence.text)


def states_plan(text: str) -> bool:
    """Whether a sentence says what is to be done, and not that it is not needed or was done.

    A line in capitals is a heading.
    """
    if not _LOWER_CASE.search(text):
        return False
    plain = " ".join(text.split())
    if _pattern("not_open").search(plain):
        return False
    return _pattern("plan").search(_pattern("no_plan").sub(" ", plain)) is not None


def quotation(sentence: NoteSentence) -> LineDraft:
    """Return a line that quotes a sentence whole, with its document, author and date."""
    text = " ".join(sentence.text.split())
    place = ", ".join(filter(None, (sentence.source, sentence.date[:10])))
    return LineDraft(f"“{text}” ({place})", (sentence.id,), sentence.date)


def newest_first(sentences: list[NoteSentence]) -> list[NoteSentence]:
    """Return the sentences of the newest document first, those of one document in its order."""
    documents: dict[str, list[NoteSentence]] = {}
    for sentence in sentences:
        documents.setdefault(sentence.id.partition("#")[0], []).append(sentence)
    return [sentence for group in reversed(documents.values()) for sentence in group]


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    rows = [row for row in table_rows(_DATA_DIR / "follow_ups.tsv") if row[0] == kind]
    pattern = whole_word_pattern("|".join(words for _, words in rows))
    assert pattern is not None  # The table has rows of each kind.
    return pattern
