"""What recent notes say on starting, stopping and changing medicines: the list may not show it."""

import re
from functools import cache
from pathlib import Path

from archqa.asking.word_patterns import whole_word_pattern
from archqa.briefing.drafts import SectionDraft
from archqa.briefing.follow_ups import newest_first, quotation, recent_sentences
from archqa.briefing.patient_rows import PatientRows
from archqa.briefing.verification import named_drugs
from archqa.resources import table_rows

MAX_SENTENCES = 20

_DATA_DIR = Path(__file__).parent / "data"


def medicine_notes(patient: PatientRows) -> SectionDraft:
    """Return the sentences of the last 24 months that say a change of a medicine, newest first."""
    sentences = [each for each in recent_sentences(patient) if says_change(each.text)]
    lines = tuple(quotation(sentence) for sentence in newest_first(sentences))
    rest = len(lines) - MAX_SENTENCES
    message = "As written; the list of orders may not show it." if lines else ""
    if rest > 0:
        message = f"{message} {rest} earlier ones are left out."
    return SectionDraft(lines[:MAX_SENTENCES], message)


def says_change(text: str) -> bool:
    """Whether a sentence names a drug and says that it was begun, ended or changed."""
    return _pattern().search(text) is not None and bool(named_drugs(text))


@cache
def _pattern() -> re.Pattern[str]:
    words = "|".join(row[0] for row in table_rows(_DATA_DIR / "medicine_changes.tsv"))
    pattern = whole_word_pattern(words)
    assert pattern is not None  # The table has rows.
    return pattern
