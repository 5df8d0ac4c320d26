"""The embedded engine: judges sentences, selects evidence and composes a cited answer.

It needs no model server and no network.
"""

from collections import OrderedDict
from concurrent.futures import Future
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.answer import WORD_LIMIT, CitedAnswer
from archqa.core.case import Case, case_digest
from archqa.core.judgement import Judgement, Relevance
from archqa.engine import extractive, medical_context, model
from archqa.engine.encoders import CrossEncoder, default_cross_encoder
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.features import (
    FeatureTable,
    cross_encoder_features,
    shared_concepts,
    text_features,
)
from archqa.engine.model import rationale
from archqa.notes.non_evidence import non_evidence_reasons

NON_EVIDENCE_LOG_ODDS = -6.0
"""Upper bound of the log-odds of a sentence that is not about the patient."""
MAX_CACHED_ASSESSMENTS = 64
"""Cases whose assessment is cached: several stages ask for the assessment of the same case."""
PROBABILITY_OF_ESSENTIAL, PROBABILITY_OF_NOT_ESSENTIAL = 0.9, 0.1
"""Probabilities of labels that come without one."""


class Assessment(NamedTuple):
    """The model's view of one case: log-odds and a rationale for every sentence."""

    logits: NDArray[np.float64]
    rationales: tuple[str, ...]


class Engine:
    """Judges, selects and answers. Use `Engine.load`; an engine is safe to share among threads."""

    def __init__(
        self, loaded_model: model.LoadedModel, cross_encoder: CrossEncoder
    ) -> None:
        self._model = loaded_model.model
        self.fingerprint = loaded_model.sha256
        self._cross_encoder = cross_encoder
        self._assessments: OrderedDict[str, Future[Assessment]] = OrderedDict()
        self._lock = Lock()

    @staticmethod
    def load(name: str = "default") -> "Engine":
        """Return the engine of that name, loaded once. Raises InputError for an unknown name."""
        return _load_engine(name)

    def judge(
        self, case: Case, *, specialty: str | None = None
    ) -> tuple[Judgement, ...]:
        """Return a judgement for every sentence in note order, with a calibrated probability.

        With `specialty`, sentences of that field weigh more. A sentence is labelled essential
        where `select` would select it at the operating point "f1".
        """
        if not case.sentences:
            return ()
        assessment = self._assess(case)
        logits = assessment.logits
        if specialty:
            logits = logits + medical_context.specialty_log_odds(case, specialty)
        probabilities = 1 / (1 + np.exp(-logits))
        selected = set(select_sentences(probabilities, self._prior()).tolist())
        judgements = []
        for index, sentence in enumerate(case.sentences):
            is_selected = index in selected
            judgement = Judgement(
                sentence_id=sentence.id,
                label=Relevance.ESSENTIAL if is_selected else Relevance.NOT_RELEVANT,
                rationale=assessment.rationales[index],
                probability=float(probabilities[index]),
            )
            judgements.append(judgement)
        return tuple(judgements)

    def select(
        self, judgements: tuple[Judgement, ...], operating_point: str = "f1"
    ) -> frozenset[str]:
        """Return the ids of the set with the highest expected F1 (or F0.5, F2).

        It has at least one id when there is a judgement. Raises CallerError for an unknown
        operating point.
        """
        probabilities = np.zeros(len(judgements))
        for index, judgement in enumerate(judgements):
            if judgement.probability is not None:
                probabilities[index] = judgement.probability
            elif judgement.label is Relevance.ESSENTIAL:
                probabilities[index] = PROBABILITY_OF_ESSENTIAL
            else:
                probabilities[index] = PROBABILITY_OF_NOT_ESSENTIAL
        selected = select_sentences(probabilities, self._prior(), operating_point)
        return frozenset(judgements[index].sentence_id for index in selected)

    def context(self, case: Case) -> str:
        """Explain the terms and abbreviations of question and note, and name the source."""
        return medical_context.glossary_context(case)

    def specialties(self, case: Case) -> tuple[str, ...]:
        """Return one to four specialties that the case calls for, the most likely first."""
        return medical_context.specialties(case)

    def compose(
        self,
        case: Case,
        chosen: frozenset[str],
        *,
        word_limit: int = WORD_LIMIT,
    ) -> CitedAnswer:
        """Compose an extractive answer of at most `word_limit` words, every line cited.

        `chosen` are the sentence ids of the evidence. Raises CallerError below 10 words.
        """
        evidence = frozenset(case.in_note_order(chosen))
        if not evidence:
            return CitedAnswer(claims=())
        probabilities = 1 / (1 + np.exp(-self._assess(case).logits))
        relevance = dict(zip(case.sentence_ids, probabilities.tolist(), strict=True))
        return extractive.compose(case, evidence, relevance, word_limit)

    def _assess(self, case: Case) -> Assessment:
        """Return the cached assessment, or compute it.

        Threads that ask for the same case wait for the one that computes it; other cases proceed.
        A failure is passed to the waiting threads and not cached.
        """
        digest = case_digest(case)
        with self._lock:
            is_new = digest not in self._assessments
            assessment = self._assessments.setdefault(digest, Future())
            while len(self._assessments) > MAX_CACHED_ASSESSMENTS:
                self._assessments.popitem(last=False)
        if is_new:
            try:
                assessment.set_result(self._compute_assessment(case))
            except BaseException as error:
                with self._lock:
                    self._assessments.pop(digest, None)
                assessment.set_exception(error)
        return assessment.result()

    def _compute_assessment(self, case: Case) -> Assessment:
        wait_for_logits = self._cross_encoder.start_logits(case)
        other_features = text_features(case)  # computed while the cross-encoder runs
        features = FeatureTable(
            cross_encoder_features(wait_for_logits()) | other_features
        )
        contributions = self._model.contributions(features)
        logits = contributions.sum(1) + self._model.linear.bias
        rationales = [
            rationale(self._model.columns, row, concepts)
            for row, concepts in zip(contributions, shared_concepts(case), strict=True)
        ]
        for index, reason in non_evidence_reasons(case).items():
            logits[index] = min(logits[index], NON_EVIDENCE_LOG_ODDS)
            rationales[index] = reason
        return Assessment(logits, tuple(rationales))

    def _prior(self) -> SelectionPrior:
        return SelectionPrior(self._model.expected_f1, self._model.mass)


@cache
def _load_engine(name: str) -> Engine:
    return Engine(model.load(name), default_cross_encoder())
