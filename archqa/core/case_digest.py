"""A case by its content: whether two files hold the same case, and whether a model was fitted on it."""

import hashlib
import json

from archqa.core.case import Case


def case_digest(case: Case) -> str:
    """The sha256 of the case's narrative, clinician question and sentences, white space made even; ids do not count."""
    parts = [
        case.patient_narrative,
        case.clinician_question,
        *(sentence.text for sentence in case.sentences),
    ]
    canonical = json.dumps([" ".join(part.split()) for part in parts], ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
