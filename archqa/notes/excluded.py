"""What stands in a note and is no evidence of this patient: orders to whoever answers, and what was filed in error."""

import re

from archqa.core.case import Case

_TO_A_MACHINE = re.compile(
    r"</?\s*(?:note|message|clinician_question|context|sentence|answer)\s*>"
    r"|\b(?:system|developer) (?:note|prompt|message)\b|\b(?:ai|language) model\b"
    r"|\bas an ai\b|\b(?:note|message|instruction)s? (?:to|for) (?:the )?(?:ai|assistant)\b"
    r"|\bignore (?:all |any |the )*(?:previous|prior|above|earlier) (?:instruction|text|note)",
    re.IGNORECASE,
)
_IN_ERROR = re.compile(
    r"^\W*(?:\w+ ){0,2}(?:mis-?filed|erroneous (?:entry|note)|wrong (?:chart|patient)"
    r"|(?:entered|filed|charted|scanned) in error)\b[^:\]]{0,60}(?:[:\]]|--)",
    re.IGNORECASE,
)
"""A label at the head of an entry; in running text the same words may tell what befell this patient."""
_DIVIDER = re.compile(r"^\s*(?:[-=*_#]{2,}|\[)")
_END = re.compile(r"^\W*end of\b", re.IGNORECASE)

INSTRUCTION_REASON = "It tells whoever answers what to do: no evidence."
MISFILED_REASON = "The note says that this was filed in error: no evidence of this patient."


def non_evidence_reasons(case: Case) -> dict[int, str]:
    """Why a sentence is no evidence, by its place in the note; most notes have no such sentence.

    A line that marks an entry as another patient's speaks for itself; one that is a divider (`--- misfiled page ---`),
    for what follows, until a line says `end of` it or the paragraph ends.
    """
    found: dict[int, str] = {}
    page: str | None = None
    for at, sentence in enumerate(case.sentences):
        marked = bool(_IN_ERROR.search(sentence.text))
        if marked or page == sentence.paragraph_id:
            found[at] = MISFILED_REASON
        if marked and _DIVIDER.match(sentence.text):
            page = sentence.paragraph_id
        if _END.match(sentence.text):
            page = None
        if _TO_A_MACHINE.search(sentence.text):
            found[at] = INSTRUCTION_REASON
    return found
