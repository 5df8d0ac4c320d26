"""What a general reader must be told of a case's words, and which specialists it calls for."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine.question import question_text
from archqa.notes.concepts import concept_names
from archqa.notes.concepts import load_terminology as terminology
from archqa.notes.glossary import GLOSSARY_SOURCE, explain_terms

MOST_TERMS = 24
NOTHING = "No term or abbreviation of this case is in the glossary."
ASKED, TOLD, NOTED = 4.0, 2.0, 0.5
"""How much a concept of the question, the message and the note says about who should be asked."""
GENERALIST = "internal medicine"
OWN_FIELD, OTHER_FIELD = 0.5, -0.25
"""Log-odds that a specialist adds to sentences of the own field and takes from those of others. Set, not fitted."""


def glossary_context(case: Case) -> str:
    """One line a term: what is written, stands for and means; the question's terms first, the source last."""
    texts = [
        question_text(case),
        case.patient_narrative,
        *(sentence.text for sentence in case.sentences),
    ]
    lines = list(dict.fromkeys(line for text in texts for line in explain_terms(text)))[:MOST_TERMS]
    return "\n".join([*(lines or [NOTHING]), f"Source: {GLOSSARY_SOURCE}."])


def specialties(case: Case) -> tuple[str, ...]:
    """One to four names, the likeliest first; a generalist where no concept is found."""
    votes: dict[str, float] = defaultdict(float)
    texts = [
        (question_text(case), ASKED),
        (case.patient_narrative, TOLD),
        *((each.text, NOTED) for each in case.sentences),
    ]
    for text, weight in texts:
        for name in concept_names(text):
            votes[terminology()[name].specialty] += weight
    best = max(votes.values(), default=0.0)
    likely = sorted(
        (name for name in votes if votes[name] >= best / 3), key=lambda name: (-votes[name], name)
    )
    return tuple(likely[:4]) or (GENERALIST,)


def specialty_log_odds(case: Case, specialty: str) -> NDArray[np.float64]:
    """Log-odds that a specialist adds to each sentence, of shape (sentences,)."""
    return np.array(
        [_lean(concept_names(each.text), specialty) for each in case.sentences], dtype=np.float64
    )


def _lean(found: frozenset[str], specialty: str) -> float:
    fields = {terminology()[name].specialty for name in found}
    if not fields:
        return 0.0
    return (
        OWN_FIELD if specialty.casefold() in {field.casefold() for field in fields} else OTHER_FIELD
    )
