"""Text in a note that is no evidence of this patient: instructions to a model, misfiled entries."""

import re

from archqa.core.case import Case

_INSTRUCTION = re.compile(
    r"</?\s*(?:note|message|clinician_question|context|sentence|answer)\s*>"
    r"|\b(?:system|developer) (?:note|prompt|message)\b|\b(?:ai|language) model\b"
    r"|\bas an ai\b|\b(?:note|message|instruction)s? (?:to|for) (?:the )?(?:ai|assistant)\b"
    r"|\bignore (?:all |any |the )*(?:previous|prior|above|earlier) (?:instruction|text|note)",
    re.IGNORECASE,
)
_MISFILED_LABEL = re.compile(
    r"^\W*(?:\w+ ){0,2}(?:mis-?filed|erroneous (?:entry|note)|wrong (?:chart|patient)"
    r"|(?:entered|filed|charted|scanned) in error)\b[^:\]]{0,60}(?:[:\]]|--)",
    re.IGNORECASE,
)
"""A label at the start of an entry; in running text the same words may be about this patient."""
_DIVIDER = re.compile(r"^\s*(?:[-=*_#]{2,}|\[)")
_END_OF_ENTRY = re.compile(r"^\W*end of\b", re.IGNORECASE)

INSTRUCTION_REASON = "It tells whoever answers what to do: no evidence."
MISFILED_REASON = "The note says that this was filed in error: no evidence of this patient."


def non_evidence_reasons(case: Case) -> dict[int, str]:
    """Return the reasons why sentences are no evidence, by index; for most notes none.

    A misfiled label excludes its own sentence. On a divider (`--- misfiled page ---`) it also
    excludes what follows, until a line that says `end of` it or the end of the paragraph.
    """
    reasons: dict[int, str] = {}
    misfiled_paragraph: str | None = None
    for index, sentence in enumerate(case.sentences):
        is_label = _MISFILED_LABEL.search(sentence.text) is not None
        if is_label or misfiled_paragraph == sentence.paragraph_id:
            reasons[index] = MISFILED_REASON
        if is_label and _DIVIDER.match(sentence.text):
            misfiled_paragraph = sentence.paragraph_id
        if _END_OF_ENTRY.match(sentence.text):
            misfiled_paragraph = None
        if _INSTRUCTION.search(sentence.text):
            reasons[index] = INSTRUCTION_REASON
    return reasons
