"""The embedded engine: a case in; judgements, a set and a cited answer out. No model server, no network."""

from collections import OrderedDict
from concurrent.futures import Future
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.answer import WORD_LIMIT, CitedAnswer
from archqa.core.case import Case
from archqa.core.case_digest import case_digest
from archqa.core.judgement import Judgement, Relevance
from archqa.engine import medical_context, model, rationales
from archqa.engine.answer import extractive
from archqa.engine.cross_encoder import CrossEncoder, default_cross_encoder
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.features import (
    FeatureTable,
    cross_encoder_features,
    shared_concepts,
    text_features,
)
from archqa.notes.excluded import non_evidence_reasons

NON_EVIDENCE_LOG_ODDS = -6.0
"""Log-odds at most of a sentence that is not about a patient at all."""
MAX_CACHED_ASSESSMENTS = 64
"""Cases whose assessment is kept: the stages of one case ask for it several times."""


class Assessment(NamedTuple):
    """One case as the model sees it: log-odds and reasons, one a sentence."""

    logits: NDArray[np.float64]
    rationales: tuple[str, ...]


class Engine:
    """Judges, selects and answers. Use `Engine.load`; one engine may serve many threads."""

    def __init__(self, shipped: model.LoadedModel, reader: CrossEncoder) -> None:
        self._model, self.fingerprint = shipped
        self._reader = reader
        self._seen: OrderedDict[str, Future[Assessment]] = OrderedDict()
        self._alone = Lock()

    @staticmethod
    def load(name: str = "default") -> "Engine":
        """The engine of that name, the same object each time. Raises InputError for a name that is not shipped."""
        return _loaded(name)

    @property
    def fitted_on(self) -> tuple[str, ...]:
        """`case_digest` of every case that the model, or its reader, was fitted on."""
        return (*self._model.fitted_on, *self._model.reader_further)

    def judge(self, case: Case, *, specialty: str | None = None) -> tuple[Judgement, ...]:
        """One judgement a sentence in note order, with a calibrated probability and its reasons in words.

        With `specialty`, as a specialist of that name: sentences of that field weigh more. A sentence is labelled
        essential where `select` takes it at the operating point "f1".
        """
        if not case.sentences:
            return ()
        seen = self._assess(case)
        logits = seen.logits + (
            medical_context.specialty_log_odds(case, specialty) if specialty else 0.0
        )
        probabilities = 1 / (1 + np.exp(-logits))
        chosen = set(select_sentences(probabilities, self._corpus()).tolist())
        return tuple(
            Judgement(
                sentence_id=sentence.id,
                label=Relevance.ESSENTIAL if at in chosen else Relevance.NOT_RELEVANT,
                rationale=seen.rationales[at],
                probability=float(probabilities[at]),
            )
            for at, sentence in enumerate(case.sentences)
        )

    def select(
        self, judgements: tuple[Judgement, ...], operating_point: str = "f1"
    ) -> frozenset[str]:
        """Ids of the set with the greatest expected F1 (or F0.5, F2); never empty when there is a judgement.

        A judgement without a probability counts as .9 when it says essential, else as .1. Raises CallerError.
        """
        probabilities = np.array([_probability(each) for each in judgements], dtype=np.float64)
        return frozenset(
            judgements[at].sentence_id
            for at in select_sentences(probabilities, self._corpus(), operating_point)
        )

    def context(self, case: Case) -> str:
        """Medical context: the terms and abbreviations of question and note in plain words, and where that is from."""
        return medical_context.glossary_context(case)

    def specialties(self, case: Case) -> tuple[str, ...]:
        """One to four specialties that the question and the note call for, the likeliest first."""
        return medical_context.specialties(case)

    def compose(
        self, case: Case, chosen: frozenset[str], *, word_limit: int = WORD_LIMIT
    ) -> CitedAnswer:
        """An extractive answer of at most `word_limit` words, every line cited. Raises CallerError below 10 words."""
        ids = set(case.in_note_order(chosen))
        if not ids:
            return CitedAnswer(claims=())
        logits = self._assess(case).logits
        worth = {
            each.id: float(1 / (1 + np.exp(-logit)))
            for each, logit in zip(case.sentences, logits, strict=True)
        }
        return extractive.compose(case, frozenset(ids), worth, word_limit)

    def _assess(self, case: Case) -> Assessment:
        """Several stages ask for one case at once: the first computes, the others wait; other cases go on meanwhile."""
        key = case_digest(case)
        with self._alone:
            mine = key not in self._seen
            assessment = self._seen.setdefault(key, Future())
            while len(self._seen) > MAX_CACHED_ASSESSMENTS:
                self._seen.popitem(last=False)
        if mine:
            self._compute(case, key, assessment)
        return assessment.result()

    def _compute(self, case: Case, key: str, assessment: Future[Assessment]) -> None:
        try:
            assessment.set_result(self._fresh(case))
        except BaseException as why:
            with self._alone:
                self._seen.pop(key, None)
            assessment.set_exception(why)

    def _fresh(self, case: Case) -> Assessment:
        read = self._reader.start(case)
        rest = text_features(case)
        columns = FeatureTable(cross_encoder_features(read()) | rest)
        added = self._model.contributions(columns)
        names = self._model.columns
        shared = shared_concepts(case)
        logits = added.sum(1) + self._model.linear.bias
        why = [rationales.rationale(names, row, of) for row, of in zip(added, shared, strict=True)]
        for at, reason in non_evidence_reasons(case).items():
            logits[at], why[at] = min(logits[at], NON_EVIDENCE_LOG_ODDS), reason
        return Assessment(logits, tuple(why))

    def _corpus(self) -> SelectionPrior:
        return SelectionPrior(self._model.expected_f1, self._model.mass)


def _probability(judgement: Judgement) -> float:
    if judgement.probability is not None:
        return judgement.probability
    return 0.9 if judgement.label is Relevance.ESSENTIAL else 0.1


@cache
def _loaded(name: str) -> Engine:
    return Engine(model.load(name), default_cross_encoder())
