"""How near each sentence is, in meaning, to what is asked: the bi-encoder's view of a case."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.evidence.encoder import Encoder, Vectors
from archqa.evidence.note import bare

Column = NDArray[np.float64]
_CLAUSE = re.compile(
    r"[?;]\s*|,\s*(?:and|or|but)\s+|\s+and\s+(?=(?:what|when|why|how|is|are|was|were|will|should|did|does|do|can|could)\b)"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
NARRATIVE = 24
"""Sentences of the patient's message that are read one by one."""


class Meaning(NamedTuple):
    """The vectors of one case. `sentences` has one row a sentence."""

    sentences: Vectors
    question: Vectors
    clauses: Vectors
    phrases: Vectors
    narrative: Vectors
    message: Vectors


def meaning(case: Case, encoder: Encoder) -> Meaning:
    """Encodes everything of the case once."""
    question = asked(case)
    parts = [
        [bare(each) for each in case.sentences],
        [question],
        clauses(question),
        [each.text for each in case.patient_question] or [question],
        _SENTENCE.split(case.patient_narrative.strip())[:NARRATIVE],
        [case.patient_narrative or question],
    ]
    vectors = encoder.encode([text for part in parts for text in part])
    edges = np.cumsum([len(part) for part in parts])[:-1]
    return Meaning(*np.split(vectors, edges))


def asked(case: Case) -> str:
    """The clinician's question, or failing it the patient's own words."""
    own = " ".join(phrase.text for phrase in case.patient_question)
    return case.clinician_question.strip() or own.strip() or case.patient_narrative.strip()


def clauses(question: str) -> list[str]:
    """The parts of a question that ask for different things."""
    parts = [part.strip() for part in _CLAUSE.split(question) if part and len(part.split()) >= 2]
    return parts or [question]


def columns(mind: Meaning) -> dict[str, Column]:
    """Likenesses of every sentence to the case's questions, each of shape (sentences,)."""
    question, clause = _near(mind.sentences, mind.question), mind.sentences @ mind.clauses.T
    phrase, told = _near(mind.sentences, mind.phrases), mind.sentences @ mind.narrative.T
    blend = 0.5 * question + 0.25 * phrase + 0.25 * _near(mind.sentences, mind.message)
    return {
        "question": question,
        "clause": clause.max(1),
        "clause_least": clause.min(1),
        "phrase": phrase,
        "narrative": told.max(1),
        "message": _near(mind.sentences, mind.message),
        "echo": _echo(mind.sentences, blend),
        "central": (mind.sentences @ mind.sentences.T).mean(1),
        "blend": blend,
        "repeats": _repeats(mind.sentences, blend),
    }


def _near(rows: Vectors, targets: Vectors) -> Column:
    best: Column = (rows @ targets.T).max(1).astype(np.float64)
    return best


def _echo(sentences: Vectors, blend: Column) -> Column:
    """Likeness to the three sentences nearest to the question: evidence keeps company with evidence."""
    top = np.argsort(-blend, kind="stable")[:3]
    alike = sentences @ sentences[top].T
    alike[top, np.arange(len(top))] = np.nan
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.nanmean(alike, axis=1) if alike.shape[1] > 1 else np.zeros(len(sentences)))


def _repeats(sentences: Vectors, blend: Column) -> Column:
    """Greatest likeness to a sentence nearer to the question: what it would repeat."""
    alike = sentences @ sentences.T
    nearer = blend[None, :] > blend[:, None]
    best: Column = np.where(nearer, alike, 0.0).max(1).astype(np.float64)
    return best
