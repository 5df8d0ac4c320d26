"""Short labels of evidence: what it is first, and of a long id its beginning alone."""

import re

from archqa.asking.chart import GIVEN_NOTE

_SHORT_ID = 4
_LONGEST_WHOLE_ID = 8

_PASTED_NOTE = "Pasted note"
_KINDS = {"DocumentReference": "Note"}
"""What types are called that do not speak for themselves."""

_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def evidence_label(evidence_id: str, source: str) -> str:
    """Return a label such as `4`, `Observation · 1f3a…` or `Discharge summary · 4`.

    A sentence of a patient's note is named by its document, `source`, and its number.
    """
    document, mark, number = evidence_id.partition("#")
    if document == GIVEN_NOTE:
        return f"{_PASTED_NOTE} · {number}"
    if mark:
        name = source if source and "/" not in source else _resource_label(document)
        return f"{name} · {number}"
    return _resource_label(evidence_id)


def _resource_label(reference: str) -> str:
    """Return a reference as words and a short id; what is none stays as it is."""
    kind, slash, own_id = reference.partition("/")
    if not slash:
        return reference
    short = own_id if len(own_id) <= _LONGEST_WHOLE_ID else f"{own_id[:_SHORT_ID]}…"
    words = _KINDS.get(kind) or _WORD_BEGINS.sub(" ", kind).capitalize()
    return f"{words} · {short}"


def shown_date(date: str) -> str:
    """Return a date of the record to the minute, in the record's own time."""
    return date[:16].replace("T", " ")
