"""Lines of a letter or a printout that say nothing about the patient.

Signatures, dictation stamps, salutations, page numbers and addresses.
"""

import re

CLOSING_SENTENCES = 5
"""A name with a degree is a signature among the last sentences of a note."""

_DEGREE = r"(?:M\.? ?D|D\.? ?O|Ph\.? ?D|R\.? ?N|N\.? ?P|PA-?C?|D\.? ?C|Dr\.? med)\b\.?"
_NAME = r"[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,4}"
_NUMBER = r"[\w-]*\d[\w-]*"
_STAMP = re.compile(
    r"\W*(?:(?:electronically|digitally)? ?(?:e-)?(?:co-?)?signed (?:by|electronically|on)\b"
    r"|(?:dictated|transcribed|authenticated|typed|reviewed and signed) by\b"
    r"|dictated (?:but|and) not (?:read|reviewed)"
    rf"|(?:job|document|dictation|transcription|confirmation|voice job)"
    rf" ?(?:id|no\.?|number|#)* ?[:#] ?{_NUMBER}\W*$"
    r"|(?:dd|dt|d|t|d&t) ?: ?\d{1,2}[/.-]\d{1,2}[/.-]\d"
    r"|(?:elektronisch )?(?:signiert|unterzeichnet|diktiert) (?:von|durch)\b)",
    re.IGNORECASE,
)
_COPY = re.compile(rf"(?:cc|Cc|CC) ?: ?(?:Dr\.? |{_NAME},? {_DEGREE}\W*$)|cc ?:.{{0,60}}$")
_COURTESY = re.compile(
    r"\W*(?:dear\b.{0,60}[,:;]?"
    r"|to whom it may concern[,:.]?"
    r"|(?:(?:yours|very)(?: very)? )?(?:sincerely|faithfully|truly)(?: yours)?[,.]?"
    r"|(?:with )?(?:best|kind|warm|kindest|warmest)(?: personal)? (?:regards|wishes)[,.]?"
    r"|thank you(?: very much| so much)? for (?:the|this|your)(?: kind)? (?:consult(?:ation)?"
    r"|referral)\W*"
    r"|(?:sehr geehrte|liebe)[rs]?\b.{0,80}[,:!]"
    r"|mit (?:freundlichen|kollegialen|besten) gr(?:ü|ue)(?:ß|ss)en[,.]?)\s*",
    re.IGNORECASE,
)
_PAGE = re.compile(
    r"\W*(?:page:? ?\d+(?: ?(?:of|/) ?\d+)?|seite ?\d+(?: ?(?:von|/) ?\d+)?"
    r"|(?:strictly )?(?:private and )?(?:confidential|vertraulich)(?: patient information)?"
    r"|\(?continued(?: on next page)?\)?|end of (?:report|note|document))\W*",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"(?:\d{1,5}|[A-Z]{2,})(?: [A-Z][\w.]*){1,4} ?"
    r"(?:Street|St\.?|Avenue|Ave\.?|Road|Rd\.?|Drive|Dr\.|Boulevard|Blvd\.?|Lane|Suite)"
    r"(?:,? (?:Suite|Apt\.?|#) ?\w+)?"
    r"|[A-Z]+ Street"
    r"|[A-Z][a-z]+(?: [A-Z][a-z]+){0,2},? [A-Z]{2} +\d{5}(?:-\d{4})?"
)
_SIGNATURE = re.compile(rf"(?:Dr\.? (?:med\.? )?)?{_NAME},? {_DEGREE}(?:,? {_DEGREE})?\s*")


def is_letter_line(text: str) -> bool:
    """Whether a sentence is a stamp, a courtesy, a page number or an address, wherever it stands."""
    text = text.strip()
    if _STAMP.match(text) or _COPY.match(text):
        return True
    return any(pattern.fullmatch(text) for pattern in (_COURTESY, _PAGE, _ADDRESS))


def is_name_with_degree(text: str) -> bool:
    """Whether a sentence is a name with a degree: a signature where a note closes."""
    return _SIGNATURE.fullmatch(text.strip()) is not None
