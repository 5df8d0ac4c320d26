"""The digest of a case's content: whether two files have the same case, and whether a model was
fitted on it.
"""

import hashlib
import json

from archqa.core.case import Case


def case_digest(case: Case) -> str:
    """The sha256 of the case's message, clinician question and sentences, white space normalised,
    ids left out.
    """
    sentences = [sentence.text for sentence in case.sentences]
    texts = [case.patient_narrative, case.clinician_question, *sentences]
    normalised = [" ".join(text.split()) for text in texts]
    canonical = json.dumps(normalised, ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
