"""How good the engine is on cases it has not seen: cross-fit over cases, intervals over cases, calibration.

Strict micro F1 as the shared task counts it (ArchEHR-QA 2025, `compute_factuality_scores`), in percent.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.question import question_text
from archqa.engine.sentence_encoder import SentenceEncoder, default_encoder
from archqa.engine.training.regression import (
    FOLDS,
    PRIOR_SENTENCES,
    LabelledSets,
    ProgressCallback,
    TrainingExample,
    build_examples,
    cross_fit,
    max_expected_f1,
    no_progress,
)
from archqa.notes.sections import text_without_list_marker

RESAMPLES = 2000
BINS = 10


class Interval(FrozenModel):
    """A score in percent with the 2.5th and 97.5th percentile over resampled cases."""

    value: float
    low: float
    high: float


class Bin(FrozenModel):
    """Sentences with a probability between `low` and `high`: how many, their mean probability, the share essential."""

    low: float
    high: float
    sentences: int
    said: float
    true: float


class EvaluationReport(FrozenModel):
    """One kind of case, cross-fit. Scores in percent; `calibration_error` is the expected calibration error, 0 to 1."""

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


class Counts(NamedTuple):
    """Hits, choices and golds of every case, each of shape (cases,)."""

    hits: NDArray[np.float64]
    chosen: NDArray[np.float64]
    gold: NDArray[np.float64]


def evaluate(
    kinds: LabelledSets, *, seed: int = 0, progress: ProgressCallback = no_progress
) -> tuple[EvaluationReport, ...]:
    """One report a kind of case, all kinds fitted together: one model, one rule. Folds are drawn over cases."""
    examples = {kind: build_examples(pairs, progress=progress) for kind, pairs in kinds.items()}
    everything = [example for each in examples.values() for example in each]
    probabilities = cross_fit(
        everything, seed=seed, folds=min(FOLDS, len(everything)), progress=progress
    )
    corpus = SelectionPrior(max_expected_f1(np.concatenate(probabilities)), PRIOR_SENTENCES)
    reports, start = [], 0
    for kind, some in examples.items():
        reports.append(report(kind, some, probabilities[start : start + len(some)], corpus, seed))
        start += len(some)
    return tuple(reports)


def report(
    kind: str,
    examples: list[TrainingExample],
    probabilities: list[NDArray[np.float64]],
    corpus: SelectionPrior,
    seed: int = 0,
) -> EvaluationReport:
    """The figures of one kind from probabilities that were made without its cases."""
    ours = _counts(examples, [select_sentences(each, corpus) for each in probabilities])
    cosine = _counts(examples, [_near(example) for example in examples])
    whole = _counts(examples, [np.arange(len(example.essential)) for example in examples])
    truth = np.concatenate([example.essential for example in examples])
    draws = np.random.default_rng(seed).integers(0, len(examples), (RESAMPLES, len(examples)))
    bins = reliability_bins(np.concatenate(probabilities), truth)
    return EvaluationReport(
        kind=kind,
        cases=len(examples),
        sentences=len(truth),
        f1=_interval(_f1(ours), [_f1(_drawn(ours, draw)) for draw in draws]),
        precision=_interval(
            _ratio(ours.hits, ours.chosen), [_ratio(ours.hits[d], ours.chosen[d]) for d in draws]
        ),
        recall=_interval(
            _ratio(ours.hits, ours.gold), [_ratio(ours.hits[d], ours.gold[d]) for d in draws]
        ),
        everything=_interval(_f1(whole), [_f1(_drawn(whole, draw)) for draw in draws]),
        cosine=_interval(_f1(cosine), [_f1(_drawn(cosine, draw)) for draw in draws]),
        above_cosine=_interval(
            _f1(ours) - _f1(cosine),
            [_f1(_drawn(ours, draw)) - _f1(_drawn(cosine, draw)) for draw in draws],
        ),
        calibration_error=sum(each.sentences * abs(each.said - each.true) for each in bins)
        / len(truth),
        reliability=bins,
    )


def reliability_bins(
    probabilities: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[Bin, ...]:
    """Ten bins of equal width; empty ones are left out."""
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return tuple(
        Bin(
            low=each / BINS,
            high=(each + 1) / BINS,
            sentences=int((place == each).sum()),
            said=float(probabilities[place == each].mean()),
            true=float(truth[place == each].mean()),
        )
        for each in range(BINS)
        if (place == each).any()
    )


def _near(example: TrainingExample) -> NDArray[np.int64]:
    """The baseline: sentences whose cosine to the question lies 0.3 standard deviations above the case's mean."""
    return np.flatnonzero(nearness(example.case, default_encoder()) > 0.3).astype(np.int64)


def nearness(case: Case, encoder: SentenceEncoder) -> NDArray[np.float64]:
    """The cosine of every sentence to what is asked, in standard deviations from the case's mean."""
    vectors = encoder.encode(
        [*(text_without_list_marker(each) for each in case.sentences), question_text(case)]
    )
    cosine = (vectors[:-1] @ vectors[-1]).astype(np.float64)
    standing: NDArray[np.float64] = (cosine - cosine.mean()) / (cosine.std() + 1e-6)
    return standing


def _counts(examples: list[TrainingExample], chosen: list[NDArray[np.int64]]) -> Counts:
    hits = [
        example.essential[places].sum() for example, places in zip(examples, chosen, strict=True)
    ]
    gold = [example.essential.sum() for example in examples]
    return Counts(
        np.array(hits), np.array([float(len(places)) for places in chosen]), np.array(gold)
    )


def _drawn(counts: Counts, draw: NDArray[np.int64]) -> Counts:
    return Counts(*(each[draw] for each in counts))


def _f1(counts: Counts) -> float:
    return (
        100
        * 2
        * float(counts.hits.sum())
        / max(float(counts.chosen.sum() + counts.gold.sum()), 1.0)
    )


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    return 100 * float(part.sum()) / max(float(whole.sum()), 1.0)


def _interval(value: float, draws: list[float]) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(value=round(value, 2), low=round(float(low), 2), high=round(float(high), 2))
