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
from archqa.engine.encoders import SentenceEncoder, default_encoder
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.question import question_text
from archqa.notes.sections import text_without_list_marker
from training.regression import (
    FOLDS,
    PSEUDO_SENTENCES,
    FloatArray,
    LabelledSets,
    ProgressCallback,
    TrainingExample,
    build_examples,
    cross_fit,
    max_expected_f1,
    no_progress,
)

RESAMPLES = 2000
RELIABILITY_BINS = 10
COSINE_THRESHOLD = 0.3
"""Standard deviations above the case's mean cosine at which the baseline selects a sentence."""

SentenceIndices = NDArray[np.int64]


class Interval(FrozenModel):
    """A score in percent with the 2.5th and 97.5th percentile over resampled cases."""

    value: float
    low: float
    high: float


class Bin(FrozenModel):
    """Sentences with a probability between `low` and `high`.

    `true` is the proportion of them that are essential.
    """

    low: float
    high: float
    sentences: int
    mean_probability: float
    true: float


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
            hits=self.hits[case_indices],
            selected=self.selected[case_indices],
            essential=self.essential[case_indices],
        )


Score = Callable[[SelectionCounts], float]


def evaluate(
    labelled_sets: LabelledSets,
    *,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> tuple[EvaluationReport, ...]:
    """Return one report for each set. All sets share one model, and folds are drawn over cases."""
    examples_by_set = {}
    all_examples: list[TrainingExample] = []
    for name, labelled_cases in labelled_sets.items():
        examples = build_examples(labelled_cases, progress=progress)
        examples_by_set[name] = examples
        all_examples += examples
    folds = min(FOLDS, len(all_examples))
    probabilities = cross_fit(all_examples, seed=seed, folds=folds, progress=progress)
    expected_f1 = max_expected_f1(np.concatenate(probabilities))
    prior = SelectionPrior(expected_f1, PSEUDO_SENTENCES)
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
    cases = len(examples)
    engine = _count(
        examples, [select_sentences(values, prior) for values in probabilities]
    )
    cosine = _count(examples, [_cosine_baseline(example) for example in examples])
    everything = _count(examples, [_all_sentences(example) for example in examples])
    essential = np.concatenate([example.essential for example in examples])
    rng = np.random.default_rng(seed)
    resamples = rng.integers(0, cases, (RESAMPLES, cases))
    bins = reliability_bins(np.concatenate(probabilities), essential)
    return EvaluationReport(
        kind=set_name,
        cases=cases,
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


def _all_sentences(example: TrainingExample) -> SentenceIndices:
    return np.arange(len(example.essential))


def _count(
    examples: list[TrainingExample], selections: list[SentenceIndices]
) -> SelectionCounts:
    cases = len(examples)
    counts = SelectionCounts(np.zeros(cases), np.zeros(cases), np.zeros(cases))
    for index, selection in enumerate(selections):
        essential = examples[index].essential
        counts.hits[index] = essential[selection].sum()
        counts.selected[index] = len(selection)
        counts.essential[index] = essential.sum()
    return counts


def _score(
    counts: SelectionCounts, score: Score, resamples: SentenceIndices
) -> Interval:
    resampled = [score(counts.resampled(case_indices)) for case_indices in resamples]
    return _interval(score(counts), resampled)


def _f1_difference(
    engine: SelectionCounts,
    baseline: SelectionCounts,
    resamples: SentenceIndices,
) -> Interval:
    resampled = []
    for case_indices in resamples:
        engine_f1 = _f1(engine.resampled(case_indices))
        baseline_f1 = _f1(baseline.resampled(case_indices))
        resampled.append(engine_f1 - baseline_f1)
    return _interval(_f1(engine) - _f1(baseline), resampled)


def _f1(counts: SelectionCounts) -> float:
    hits = float(counts.hits.sum())
    total = float(counts.selected.sum() + counts.essential.sum())
    return 100 * 2 * hits / max(total, 1.0)


def _precision(counts: SelectionCounts) -> float:
    hits = float(counts.hits.sum())
    selected = float(counts.selected.sum())
    return 100 * hits / max(selected, 1.0)


def _recall(counts: SelectionCounts) -> float:
    hits = float(counts.hits.sum())
    essential = float(counts.essential.sum())
    return 100 * hits / max(essential, 1.0)


def _interval(value: float, resampled: list[float]) -> Interval:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Interval(
        value=round(value, 2),
        low=round(float(low), 2),
        high=round(float(high), 2),
    )


def reliability_bins(
    probabilities: FloatArray, essential: FloatArray
) -> tuple[Bin, ...]:
    """Group sentences into ten bins of equal width by probability; empty bins are left out."""
    bin_numbers = (probabilities * RELIABILITY_BINS).astype(int)
    bin_numbers = np.minimum(bin_numbers, RELIABILITY_BINS - 1)
    bins = []
    for number in np.unique(bin_numbers).tolist():
        members = bin_numbers == number
        bins.append(
            Bin(
                low=number / RELIABILITY_BINS,
                high=(number + 1) / RELIABILITY_BINS,
                sentences=int(members.sum()),
                mean_probability=float(probabilities[members].mean()),
                true=float(essential[members].mean()),
            )
        )
    return tuple(bins)


def expected_calibration_error(bins: tuple[Bin, ...]) -> float:
    """Return the mean distance of probability and truth, weighted by sentences; 0 without bins."""
    distance = 0.0
    sentences = 0
    for group in bins:
        distance += group.sentences * abs(group.mean_probability - group.true)
        sentences += group.sentences
    return distance / max(sentences, 1)
