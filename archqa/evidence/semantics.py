"""What a case asks, and how near each sentence is to it in meaning: the baseline that the engine is measured beside."""

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.evidence.encoder import Encoder
from archqa.evidence.note import bare

Column = NDArray[np.float64]


def asked(case: Case) -> str:
    """The clinician's question, or failing it the patient's own words."""
    own = " ".join(phrase.text for phrase in case.patient_question)
    return case.clinician_question.strip() or own.strip() or case.patient_narrative.strip()


def nearness(case: Case, encoder: Encoder) -> Column:
    """The cosine of every sentence to what is asked, in standard deviations from the case's mean."""
    vectors = encoder.encode([*(bare(each) for each in case.sentences), asked(case)])
    cosine: Column = (vectors[:-1] @ vectors[-1]).astype(np.float64)
    standing: Column = (cosine - cosine.mean()) / (cosine.std() + 1e-6)
    return standing
