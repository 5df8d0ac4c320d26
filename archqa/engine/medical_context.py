"""Plain-language context of a case: its terms explained, and the specialties it calls for."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine.question import question_text
from archqa.terminology.glossary import GLOSSARY_SOURCE, explain_terms
from archqa.terminology.topics import load_topics, topics_of

MAX_TERMS = 24
NO_TERMS = "No term or abbreviation of this case is in the glossary."
QUESTION_WEIGHT, MESSAGE_WEIGHT, SENTENCE_WEIGHT = 4.0, 2.0, 0.5
"""Votes of a concept for its specialty, by where the concept is named."""
MAX_SPECIALTIES = 4
GENERALIST = "internal medicine"
OWN_FIELD, OTHER_FIELD = 0.5, -0.25
"""Log-odds that a specialist adds to sentences of the own and of another field; set, not fitted."""


def glossary_context(case: Case) -> str:
    """Explain one term a line, the question's terms first; the last line names the source."""
    lines: dict[str, None] = {}
    for text in _texts(case):
        lines |= dict.fromkeys(explain_terms(text))
    explanations = list(lines)[:MAX_TERMS] or [NO_TERMS]
    return "\n".join([*explanations, f"Source: {GLOSSARY_SOURCE}."])


def specialties(case: Case) -> tuple[str, ...]:
    """Return one to four specialties, the most likely first; a generalist without concepts."""
    terminology = load_topics()
    votes: dict[str, float] = defaultdict(float)
    question, message, *sentences = _texts(case)
    weighted_texts = [(question, QUESTION_WEIGHT), (message, MESSAGE_WEIGHT)]
    for sentence in sentences:
        weighted_texts.append((sentence, SENTENCE_WEIGHT))
    for text, weight in weighted_texts:
        for name in topics_of(text):
            votes[terminology[name].specialty] += weight
    max_votes = max(votes.values(), default=0.0)
    likely = [name for name in votes if votes[name] >= max_votes / 3]
    likely.sort(key=lambda name: (-votes[name], name))
    return tuple(likely[:MAX_SPECIALTIES]) or (GENERALIST,)


def specialty_log_odds(case: Case, specialty: str) -> NDArray[np.float64]:
    """Return the log-odds that a specialist adds to each sentence, of shape (sentences,)."""
    adjustments = np.zeros(len(case.sentences))
    for index, sentence in enumerate(case.sentences):
        concepts = topics_of(sentence.text)
        adjustments[index] = _specialty_adjustment(concepts, specialty)
    return adjustments


def _texts(case: Case) -> list[str]:
    """Return the question, the patient's message and the sentences."""
    sentences = [sentence.text for sentence in case.sentences]
    return [question_text(case), case.patient_narrative, *sentences]


def _specialty_adjustment(concepts: frozenset[str], specialty: str) -> float:
    terminology = load_topics()
    fields = {terminology[name].specialty.casefold() for name in concepts}
    if not fields:
        return 0.0
    if specialty.casefold() in fields:
        return OWN_FIELD
    return OTHER_FIELD
