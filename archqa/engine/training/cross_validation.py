"""Measure the engine on unseen cases: cross-validation, bootstrap intervals, calibration.

Scores are strict micro F1 as the shared task counts it (ArchEHR-QA 2025,
`compute_factuality_scores`), in percent.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.engine.evaluation_statistics import (
    Bin,
    expected_calibration_error,
    max_expected_f1,
    reliability_bins,
)
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.logistic_regression import FloatArray
from archqa.engine.question import question_text
from archqa.engine.sentence_encoder import SentenceEncoder, default_encoder
from archqa.engine.training.regression import (
    FOLDS,
    PSEUDO_SENTENCES,
    LabelledSets,
    ProgressCallback,
    TrainingExample,
    build_examples,
    cross_fit,
    no_progress,
)
from archqa.notes.sections import text_without_list_marker

RESAMPLES = 2000
COSINE_THRESHOLD = 0.3
"""Standard deviations above the case's mean cosine at which the baseline selects a sentence."""

SentenceIndices = NDArray[np.int64]


class Interval(FrozenModel):
    """A score in percent with the 2.5th and 97.5th percentile over resampled cases."""

    value: float
    low: float
    high: float


class EvaluationReport(FrozenModel):
    """The scores of one file by cross-validation, in percent.

    `calibration_error` is the expected calibration error, between 0 and 1.
    """

    kind: str
    cases: int
    sentences: int
    f1: Interval
    precision: Interval
    recall: Interval
    everything: Interval
    cosine: Interval
    above_cosine: Interval
    calibration_error: float
    reliability: tuple[Bin, ...]


class SelectionCounts(NamedTuple):
    """True positives, selected and essential sentences of every case, all of shape (cases,)."""

    hits: FloatArray
    selected: FloatArray
    essential: FloatArray

    def resampled(self, case_indices: SentenceIndices) -> "SelectionCounts":
        """Return the counts of the cases at `case_indices`."""
        return SelectionCounts(
            self.hits[case_indices], self.selected[case_indices], self.essential[case_indices]
        )


Score = Callable[[SelectionCounts], float]


def evaluate(
    labelled_sets: LabelledSets, *, seed: int = 0, progress: ProgressCallback = no_progress
) -> tuple[EvaluationReport, ...]:
    """Return one report for each set. All sets share one model, and folds are drawn over cases."""
    examples_by_set = {
        name: build_examples(labelled_cases, progress=progress)
        for name, labelled_cases in labelled_sets.items()
    }
    all_examples = [example for examples in examples_by_set.values() for example in examples]
    folds = min(FOLDS, len(all_examples))
    probabilities = cross_fit(all_examples, seed=seed, folds=folds, progress=progress)
    prior = SelectionPrior(max_expected_f1(np.concatenate(probabilities)), PSEUDO_SENTENCES)
    reports = []
    start = 0
    for name, examples in examples_by_set.items():
        end = start + len(examples)
        reports.append(report(name, examples, probabilities[start:end], prior, seed))
        start = end
    return tuple(reports)


def report(
    set_name: str,
    examples: list[TrainingExample],
    probabilities: list[FloatArray],
    prior: SelectionPrior,
    seed: int = 0,
) -> EvaluationReport:
    """Score one set from the probabilities of models that were fitted without its cases."""
    engine = _count(examples, [select_sentences(values, prior) for values in probabilities])
    cosine = _count(examples, [_cosine_baseline(example) for example in examples])
    everything = _count(examples, [np.arange(len(example.essential)) for example in examples])
    essential = np.concatenate([example.essential for example in examples])
    resamples = np.random.default_rng(seed).integers(0, len(examples), (RESAMPLES, len(examples)))
    bins = reliability_bins(np.concatenate(probabilities), essential)
    return EvaluationReport(
        kind=set_name,
        cases=len(examples),
        sentences=len(essential),
        f1=_score(engine, _f1, resamples),
        precision=_score(engine, _precision, resamples),
        recall=_score(engine, _recall, resamples),
        everything=_score(everything, _f1, resamples),
        cosine=_score(cosine, _f1, resamples),
        above_cosine=_f1_difference(engine, cosine, resamples),
        calibration_error=expected_calibration_error(bins),
        reliability=bins,
    )


def cosine_z_scores(case: Case, encoder: SentenceEncoder) -> FloatArray:
    """Return the cosine of every sentence to the question, standardised within the case."""
    texts = [text_without_list_marker(sentence) for sentence in case.sentences]
    vectors = encoder.encode([*texts, question_text(case)])
    cosine = (vectors[:-1] @ vectors[-1]).astype(np.float64)
    z_scores: FloatArray = (cosine - cosine.mean()) / (cosine.std() + 1e-6)
    return z_scores


def _cosine_baseline(example: TrainingExample) -> SentenceIndices:
    z_scores = cosine_z_scores(example.case, default_encoder())
    return np.flatnonzero(z_scores > COSINE_THRESHOLD).astype(np.int64)


def _count(examples: list[TrainingExample], selections: list[SentenceIndices]) -> SelectionCounts:
    hits = [
        example.essential[selection].sum()
        for example, selection in zip(examples, selections, strict=True)
    ]
    selected = [float(len(selection)) for selection in selections]
    essential = [example.essential.sum() for example in examples]
    return SelectionCounts(np.array(hits), np.array(selected), np.array(essential))


def _score(counts: SelectionCounts, score: Score, resamples: SentenceIndices) -> Interval:
    resampled = [score(counts.resampled(case_indices)) for case_indices in resamples]
    return _interval(score(counts), resampled)


def _f1_difference(
    engine: SelectionCounts, baseline: SelectionCounts, resamples: SentenceIndices
) -> Interval:
    resampled = [
        _f1(engine.resampled(case_indices)) - _f1(baseline.resampled(case_indices))
        for case_indices in resamples
    ]
    return _interval(_f1(engine) - _f1(baseline), resampled)


def _f1(counts: SelectionCounts) -> float:
    total = float(counts.selected.sum() + counts.essential.sum())
    return 100 * 2 * float(counts.hits.sum()) / max(total, 1.0)


def _precision(counts: SelectionCounts) -> float:
    return 100 * float(counts.hits.sum()) / max(float(counts.selected.sum()), 1.0)


def _recall(counts: SelectionCounts) -> float:
    return 100 * float(counts.hits.sum()) / max(float(counts.essential.sum()), 1.0)


def _interval(value: float, resampled: list[float]) -> Interval:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Interval(value=round(value, 2), low=round(float(low), 2), high=round(float(high), 2))
