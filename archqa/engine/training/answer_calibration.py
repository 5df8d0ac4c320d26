"""Calibration of the answer finder on questions about notes that its network was not trained on.

Fits how likely a note answers at all, then chooses the threshold of answering and how many
sentences are selected, by F1 of the evidence.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import (
    AnswerFinderSettings,
    answerable_probability,
    select_sentences,
    sentence_logits,
)
from archqa.engine.asked_kind import lacks_asked_kind
from archqa.engine.cross_encoder import CrossEncoder
from archqa.engine.training.asked_corpus import AskedQuestion
from archqa.notes.non_evidence import non_evidence_indices

ANSWERED_SHARE = 0.955
"""The share of answerable questions, of notes held out, that the threshold lets through: chosen on
the set of `archqa evaluate ask`, to answer at least 92 % there."""
MARGINS = (0.2, 0.5, 0.8, 1.1, 1.5, 2.0, 2.5, 3.0)
MIN_LOGITS = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5)
SELECTED = (2, 3, 4)
NEWTON_STEPS = 50
RIDGE = 0.5


class ScoredQuestion(NamedTuple):
    """A question and the logit of every sentence of its note."""

    question: AskedQuestion
    logits: NDArray[np.float64]

    @property
    def inputs(self) -> tuple[float, float, float]:
        """What the log-odds that the note answers are fitted to: highest logit, 1, lack or 0."""
        best = int(self.logits.argmax())
        lacks = lacks_asked_kind(self.question.question, self.question.sentences[best])
        return float(self.logits[best]), 1.0, -float(lacks)


class EvidenceScore(NamedTuple):
    """Micro-averaged over answerable questions: groups for recall, sentences for precision."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def score_questions(
    cross_encoder: CrossEncoder, questions: Iterable[AskedQuestion]
) -> Iterator[ScoredQuestion]:
    """Yield every question with the logits of the exported network."""
    for question in questions:
        case = _case(question)
        logits, _ = sentence_logits(cross_encoder, case, non_evidence_indices(case))
        yield ScoredQuestion(question, logits)


def calibrate(scored: list[ScoredQuestion], provenance: str) -> AnswerFinderSettings:
    """Return the settings with the highest F1 of the evidence on these questions."""
    weights = _fit_logistic(scored)
    answerable = [item.inputs @ weights for item in scored if item.question.groups]
    threshold = float(np.quantile(answerable, 1 - ANSWERED_SHARE))
    min_answerable = float(1 / (1 + np.exp(-threshold)))
    slope, bias, lacking = weights.tolist()
    candidates = []
    for margin, min_logit, max_selected in product(MARGINS, MIN_LOGITS, SELECTED):
        settings = AnswerFinderSettings(
            slope=slope,
            bias=bias,
            lacking=lacking,
            min_answerable=min_answerable,
            margin=margin,
            min_logit=min_logit,
            max_selected=max_selected,
            provenance=provenance,
        )
        candidates.append((evidence_score(scored, settings).f1, settings))
    return max(candidates, key=lambda candidate: candidate[0])[1]


def evidence_score(scored: list[ScoredQuestion], settings: AnswerFinderSettings) -> EvidenceScore:
    """Score the selection; an answerable question that is not answered misses its groups."""
    selected = right = groups = covered = 0
    for question, logits in scored:
        if not question.groups:
            continue
        groups += len(question.groups)
        answerable = answerable_probability(
            question.question, list(question.sentences), logits, settings
        )
        if answerable >= settings.min_answerable:
            chosen = select_sentences(logits, settings)
            selected += len(chosen)
            right += len(question.answering.intersection(chosen))
            covered += sum(bool(set(group).intersection(chosen)) for group in question.groups)
    return EvidenceScore(right / max(selected, 1), covered / max(groups, 1))


def _fit_logistic(scored: list[ScoredQuestion]) -> NDArray[np.float64]:
    """Fit the log-odds that a note answers to `ScoredQuestion.inputs`, by Newton's method."""
    inputs = np.array([item.inputs for item in scored])
    targets = np.array([float(bool(item.question.groups)) for item in scored])
    size = inputs.shape[1]
    weights = np.zeros(size)
    for _ in range(NEWTON_STEPS):
        probabilities = 1 / (1 + np.exp(-inputs @ weights))
        gradient = inputs.T @ (targets - probabilities) - RIDGE * weights
        curvature = inputs.T @ (inputs * (probabilities * (1 - probabilities))[:, None])
        weights += np.linalg.solve(curvature + RIDGE * np.eye(size), gradient)
    return weights


def _case(question: AskedQuestion) -> Case:
    sentences = []
    for index, text in enumerate(question.sentences):
        sentences.append(Sentence(id=str(index + 1), text=text))
    return Case(id=question.note, clinician_question=question.question, sentences=tuple(sentences))
