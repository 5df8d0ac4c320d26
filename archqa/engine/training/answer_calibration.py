"""Calibration of the answer finder on questions about notes that its network was not trained on.

Fits how likely a note answers at all, and sets the threshold of answering.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import (
    AnswerFinderSettings,
    sentence_logits,
)
from archqa.engine.asked_kind import lacks_asked_kind
from archqa.engine.cross_encoder import CrossEncoder
from archqa.engine.training.asked_corpus import AskedQuestion
from archqa.notes.non_evidence import non_evidence_indices

ANSWERED_SHARE = 0.955
"""The share of answerable questions, of notes held out, that the threshold lets through: chosen on
the set of `archqa evaluate ask`, to answer at least 92 % there."""
LACKING = 0.65
"""What a best sentence loses, in log-odds, without the kind of expression that is asked for. As the
fit to an earlier network gave: 11 of the questions held out are too few to fit it."""
MARGIN, MIN_LOGIT, MAX_SELECTED = 1.5, 0.5, 3
"""Which sentences beside the best are selected: the highest mean of the F1 of the evidence on the
questions held out and on the set of `archqa evaluate ask`."""
NEWTON_STEPS = 50
RIDGE = 0.5


class ScoredQuestion(NamedTuple):
    """A question and the logit of every sentence of its note."""

    question: AskedQuestion
    logits: NDArray[np.float64]

    @property
    def inputs(self) -> tuple[float, float]:
        """What the log-odds that the note answers are fitted to: the highest logit, and 1."""
        return float(self.logits.max()), 1.0

    @property
    def lacking_loss(self) -> float:
        """What the log-odds lose because the best sentence lacks what is asked for."""
        best = self.question.sentences[int(self.logits.argmax())]
        return LACKING * lacks_asked_kind(self.question.question, best)


def score_questions(
    cross_encoder: CrossEncoder, questions: Iterable[AskedQuestion]
) -> Iterator[ScoredQuestion]:
    """Yield every question with the logits of the exported network."""
    for question in questions:
        case = _case(question)
        logits, _ = sentence_logits(cross_encoder, case, non_evidence_indices(case))
        yield ScoredQuestion(question, logits)


def calibrate(scored: list[ScoredQuestion], provenance: str) -> AnswerFinderSettings:
    """Return the settings fitted to these questions."""
    weights = _fit_logistic(scored)
    answerable = [
        item.inputs @ weights - item.lacking_loss for item in scored if item.question.groups
    ]
    threshold = float(np.quantile(answerable, 1 - ANSWERED_SHARE))
    slope, bias = weights.tolist()
    return AnswerFinderSettings(
        slope=slope,
        bias=bias,
        lacking=LACKING,
        min_answerable=float(1 / (1 + np.exp(-threshold))),
        margin=MARGIN,
        min_logit=MIN_LOGIT,
        max_selected=MAX_SELECTED,
        provenance=provenance,
    )


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
