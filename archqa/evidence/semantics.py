"""How near each sentence is, in meaning, to what is asked: the bi-encoder's view of a case."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.evidence.encoder import Encoder, Vectors
from archqa.evidence.note import bare

Column = NDArray[np.float64]


class Meaning(NamedTuple):
    """The vectors of one case: one row a sentence, the question, and one row a phrase of the patient's."""

    sentences: Vectors
    question: Vectors
    phrases: Vectors


def meaning(case: Case, encoder: Encoder) -> Meaning:
    """Encodes everything of the case once."""
    question = asked(case)
    parts = [
        [bare(each) for each in case.sentences],
        [question],
        [each.text for each in case.patient_question] or [question],
    ]
    vectors = encoder.encode([text for part in parts for text in part])
    edges = np.cumsum([len(part) for part in parts])[:-1]
    return Meaning(*np.split(vectors, edges))


def asked(case: Case) -> str:
    """The clinician's question, or failing it the patient's own words."""
    own = " ".join(phrase.text for phrase in case.patient_question)
    return case.clinician_question.strip() or own.strip() or case.patient_narrative.strip()


def columns(mind: Meaning) -> dict[str, Column]:
    """Likenesses of every sentence to what is asked and to the other sentences, each of shape (sentences,)."""
    question, phrase = _near(mind.sentences, mind.question), _near(mind.sentences, mind.phrases)
    blend = (2 * question + phrase) / 3
    return {
        "question": question,
        "phrase": phrase,
        "blend": blend,
        "echo": _echo(mind.sentences, blend),
        "central": (mind.sentences @ mind.sentences.T).mean(1),
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
