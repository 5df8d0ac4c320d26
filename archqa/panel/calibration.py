"""Fits a combiner on cases with a key: logistic regression over votes, cross-fit over cases.

The fit is regularised towards a combiner known before, or towards equal weights, so that few cases change little.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.probability import MAX_VOTE, MIN_VOTE, log_odds
from archqa.engine.evaluation_statistics import (
    assign_folds,
    expected_calibration_error,
    max_expected_f1,
    reliability_bins,
)
from archqa.engine.logistic_regression import FloatArray, fit, logit
from archqa.panel.combiner import UNFITTED, Combiner, Votes

RIDGE = 3.0
"""Strength of the prior of the weights, in sentences; chosen once, on simulated voters."""
FOLDS = 8

_BIAS_RIDGE = 1e-3


class VotedCase(NamedTuple):
    """A case with its votes and the sentences that its key labels essential."""

    ids: tuple[str, ...]
    votes: Votes
    essential: frozenset[str]


class SelectionQuality(NamedTuple):
    """Quality of the probabilities of a combiner and of the sets selected from them.

    F1, precision and recall are strict micro, in percent.
    """

    f1: float
    precision: float
    recall: float
    calibration_error: float


def fit_combiner(
    cases: Sequence[VotedCase],
    *,
    prior: Combiner | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> Combiner:
    """Fit a combiner on all cases; its expected F1 comes from cross-fit probabilities.

    A voter without a weight in `prior` begins at 0; without a prior all begin with equal weights.
    """
    combiner = _fit(cases, prior)
    probabilities = _flatten(cross_fit(cases, prior=prior, folds=folds, seed=seed))
    expected_f1 = round(max_expected_f1(probabilities), 4)
    return combiner.model_copy(update={"expected_f1": expected_f1})


def cross_fit(
    cases: Sequence[VotedCase],
    *,
    prior: Combiner | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Each case's probabilities by a combiner fitted without it; folds are drawn over cases."""
    fold_of_case = assign_folds(len(cases), min(folds, len(cases)), seed)
    combiners: dict[int, Combiner] = {}
    for fold in set(fold_of_case.tolist()):
        training = np.flatnonzero(fold_of_case != fold).tolist()
        combiners[fold] = _fit([cases[index] for index in training], prior)
    probabilities = []
    for case, fold in zip(cases, fold_of_case.tolist(), strict=True):
        combiner = combiners[fold]
        probabilities.append(combiner.probabilities(case.votes, case.ids))
    return probabilities


def evaluate_cross_fit(
    cases: Sequence[VotedCase],
    *,
    prior: Combiner | None = None,
    folds: int = FOLDS,
    seed: int = 0,
    point: str = "f1",
) -> SelectionQuality:
    """Quality on cases held out of fit and selection: a fold's expected F1 comes from the other folds."""
    probabilities = cross_fit(cases, prior=prior, folds=folds, seed=seed)
    fold_of_case = assign_folds(len(cases), min(folds, len(cases)), seed)
    selections = []
    for fold, case_probabilities in zip(fold_of_case, probabilities, strict=True):
        training = np.flatnonzero(fold_of_case != fold).tolist()
        combiner = _with_expected_f1([probabilities[index] for index in training])
        selections.append(combiner.choose(case_probabilities, point))
    return score_selections(cases, probabilities, selections)


def evaluate_combiner(
    cases: Sequence[VotedCase], combiner: Combiner, point: str = "f1"
) -> SelectionQuality:
    """Quality of a combiner on these cases."""
    probabilities = []
    selections = []
    for case in cases:
        by_sentence = combiner.probabilities(case.votes, case.ids)
        probabilities.append(by_sentence)
        selections.append(combiner.choose(by_sentence, point))
    return score_selections(cases, probabilities, selections)


def restrict_to_voter(cases: Sequence[VotedCase], voter: str) -> list[VotedCase]:
    """The cases that this voter voted on, with its votes alone."""
    restricted = []
    for case in cases:
        if voter in case.votes:
            own_votes = {voter: case.votes[voter]}
            restricted.append(case._replace(votes=own_votes))
    return restricted


def voter_names(cases: Sequence[VotedCase]) -> tuple[str, ...]:
    """Every voter, in order of first appearance."""
    names: dict[str, None] = {}
    for case in cases:
        names.update(dict.fromkeys(case.votes))
    return tuple(names)


def score_selections(
    cases: Sequence[VotedCase],
    probabilities: Sequence[dict[str, float]],
    selections: Sequence[frozenset[str]],
) -> SelectionQuality:
    """Strict micro precision, recall and F1 of selected sets, and the probabilities' calibration error."""
    hits = selected = gold = 0
    for case, selection in zip(cases, selections, strict=True):
        hits += len(selection & case.essential)
        selected += len(selection)
        gold += len(case.essential)
    return SelectionQuality(
        f1=200 * hits / max(selected + gold, 1),
        precision=100 * hits / max(selected, 1),
        recall=100 * hits / max(gold, 1),
        calibration_error=_calibration_error(cases, probabilities),
    )


def _calibration_error(
    cases: Sequence[VotedCase], probabilities: Sequence[dict[str, float]]
) -> float:
    values: list[float] = []
    for case, by_sentence in zip(cases, probabilities, strict=True):
        values.extend(by_sentence[sentence_id] for sentence_id in case.ids)
    bins = reliability_bins(np.array(values), _truth(cases))
    return expected_calibration_error(bins)


def _with_expected_f1(probabilities: Sequence[dict[str, float]]) -> Combiner:
    """A combiner without weights whose expected F1 is that of these probabilities."""
    values = _flatten(probabilities)
    if not values.size:
        return UNFITTED
    return UNFITTED.model_copy(update={"expected_f1": max_expected_f1(values)})


def _fit(cases: Sequence[VotedCase], prior: Combiner | None = None) -> Combiner:
    voters = voter_names(cases)
    truth = _truth(cases)
    prior = prior or _equal_weights(voters, _centre(truth))
    centre = prior.centre
    features = np.concatenate([_features(case, voters, centre) for case in cases])
    expected = np.array([prior.bias] + [prior.weights.get(voter, 0.0) for voter in voters])
    ridge = np.array([_BIAS_RIDGE] + [RIDGE] * len(voters))
    coefficients = fit(features, truth, prior=expected, ridge=ridge).tolist()
    bias, *weights = [round(coefficient, 6) for coefficient in coefficients]
    return UNFITTED.model_copy(
        update={
            "weights": dict(zip(voters, weights, strict=True)),
            "bias": bias,
            "centre": round(centre, 6),
        }
    )


def _equal_weights(voters: Sequence[str], centre: float) -> Combiner:
    weights = dict.fromkeys(voters, 1 / len(voters))
    return UNFITTED.model_copy(update={"weights": weights, "bias": centre, "centre": centre})


def _centre(truth: FloatArray) -> float:
    """The log-odds of the share of essential sentences."""
    share = np.clip(truth.mean(), MIN_VOTE, MAX_VOTE)
    return float(logit(np.array([share]))[0])


def _features(case: VotedCase, voters: Sequence[str], centre: float) -> FloatArray:
    """A column of ones, then each voter's log-odds minus `centre`: 0 where it did not vote."""
    columns: list[NDArray[np.float64]] = [np.ones(len(case.ids))]
    for voter in voters:
        votes = case.votes.get(voter, {})
        column = np.zeros(len(case.ids))
        for row, sentence_id in enumerate(case.ids):
            if sentence_id in votes:
                column[row] = log_odds(votes[sentence_id]) - centre
        columns.append(column)
    return np.column_stack(columns)


def _truth(cases: Sequence[VotedCase]) -> FloatArray:
    """1 for every essential sentence of the cases, 0 for the rest."""
    labels: list[float] = []
    for case in cases:
        labels.extend(float(sentence_id in case.essential) for sentence_id in case.ids)
    return np.array(labels)


def _flatten(probabilities: Sequence[dict[str, float]]) -> FloatArray:
    values: list[float] = []
    for by_sentence in probabilities:
        values.extend(by_sentence.values())
    return np.array(values)
