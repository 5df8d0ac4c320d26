"""What each voter's word is worth, learned from cases with a key: logistic regression over votes, cross-fit over cases.

The fit leans towards equal weights, so that few cases change little; with one voter there is nothing to learn.
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
"""How firmly equal weights are held, in sentences' worth of information; chosen once, on simulated voters."""
FOLDS = 8


class VotedCase(NamedTuple):
    """A case with its votes and what its key holds essential."""

    ids: tuple[str, ...]
    votes: Votes
    essential: frozenset[str]


class SelectionQuality(NamedTuple):
    """Probabilities that a combiner gave cases it was not fitted on, sets chosen from them, and how good both are.

    F1, precision and recall are strict micro, in percent.
    """

    f1: float
    precision: float
    recall: float
    calibration_error: float


def fit_combiner(cases: Sequence[VotedCase], *, folds: int = FOLDS, seed: int = 0) -> Combiner:
    """The combiner of all cases; what selection expects of a corpus comes from cross-fit probabilities.

    With one voter there is nothing to learn, and nothing changes.
    """
    combiner = _fit(cases)
    if len(combiner.weights) < 2:
        return combiner
    held_out = cross_fit(cases, folds=folds, seed=seed)
    said = np.concatenate([np.array(list(each.values())) for each in held_out])
    return combiner.model_copy(update={"expected_f1": round(max_expected_f1(said), 4)})


def cross_fit(
    cases: Sequence[VotedCase], *, folds: int = FOLDS, seed: int = 0
) -> list[dict[str, float]]:
    """Each case's probabilities by a combiner that was fitted without it; folds are drawn over cases."""
    fold = assign_folds(len(cases), min(folds, len(cases)), seed)
    found: list[dict[str, float]] = [{} for _ in cases]
    for each in range(int(fold.max()) + 1):
        combiner = _fit([case for at, case in enumerate(cases) if fold[at] != each])
        for at in np.flatnonzero(fold == each).tolist():
            found[at] = combiner.probabilities(cases[at].votes, cases[at].ids)
    return found


def evaluate_cross_fit(
    cases: Sequence[VotedCase], *, folds: int = FOLDS, seed: int = 0, point: str = "f1"
) -> SelectionQuality:
    """How good fit and selection are on cases held out of both: F* of a fold comes from the other folds."""
    said = cross_fit(cases, folds=folds, seed=seed)
    fold = assign_folds(len(cases), min(folds, len(cases)), seed)
    chosen = []
    for at, case in enumerate(said):
        others = [
            value
            for other, each in enumerate(said)
            if fold[other] != fold[at]
            for value in each.values()
        ]
        expected = max_expected_f1(np.array(others)) if others else UNFITTED.expected_f1
        chosen.append(UNFITTED.model_copy(update={"expected_f1": expected}).choose(case, point))
    return score_selections(cases, said, chosen)


def evaluate_combiner(
    cases: Sequence[VotedCase], combiner: Combiner, point: str = "f1"
) -> SelectionQuality:
    """How good a given combiner is on these cases."""
    said = [combiner.probabilities(case.votes, case.ids) for case in cases]
    return score_selections(cases, said, [combiner.choose(each, point) for each in said])


def restrict_to_voter(cases: Sequence[VotedCase], voter: str) -> list[VotedCase]:
    """The same cases as if only this voter had been there."""
    return [
        case._replace(votes={voter: case.votes[voter]}) for case in cases if voter in case.votes
    ]


def voter_names(cases: Sequence[VotedCase]) -> tuple[str, ...]:
    """Everyone who voted, in order of first appearance."""
    return tuple(dict.fromkeys(voter for case in cases for voter in case.votes))


def score_selections(
    cases: Sequence[VotedCase], said: Sequence[dict[str, float]], chosen: Sequence[frozenset[str]]
) -> SelectionQuality:
    """Strict micro precision, recall and F1 of chosen sets, and the calibration error of probabilities."""
    hits = sum(len(one & case.essential) for one, case in zip(chosen, cases, strict=True))
    picked, gold = sum(map(len, chosen)), sum(len(case.essential) for case in cases)
    truth = np.array([float(each in case.essential) for case in cases for each in case.ids])
    values = np.array(
        [one[each] for one, case in zip(said, cases, strict=True) for each in case.ids]
    )
    bins = reliability_bins(values, truth)
    return SelectionQuality(
        f1=200 * hits / max(picked + gold, 1),
        precision=100 * hits / max(picked, 1),
        recall=100 * hits / max(gold, 1),
        calibration_error=expected_calibration_error(bins),
    )


def _fit(cases: Sequence[VotedCase]) -> Combiner:
    voters = voter_names(cases)
    if len(voters) < 2:
        return UNFITTED.model_copy(update={"weights": dict.fromkeys(voters, 1.0)})
    truth = np.array([float(each in case.essential) for case in cases for each in case.ids])
    share = float(np.clip(truth.mean(), MIN_VOTE, MAX_VOTE))
    centre = float(logit(np.array([share]))[0])
    rows = np.concatenate([_rows(case, voters, centre) for case in cases])
    prior = np.array([centre] + [1 / len(voters)] * len(voters))
    ridge = np.array([1e-3] + [RIDGE] * len(voters))
    bias, *weights = fit(rows, truth, prior=prior, ridge=ridge).tolist()
    named = {voter: round(weight, 6) for voter, weight in zip(voters, weights, strict=True)}
    return UNFITTED.model_copy(
        update={"weights": named, "bias": round(bias, 6), "centre": round(centre, 6)}
    )


def _rows(case: VotedCase, voters: Sequence[str], centre: float) -> FloatArray:
    """A column of ones, then each voter's evidence: 0 where it did not vote."""
    columns: list[NDArray[np.float64]] = [np.ones(len(case.ids))]
    for voter in voters:
        said = case.votes.get(voter, {})
        odds = [log_odds(said[each]) - centre if each in said else 0.0 for each in case.ids]
        columns.append(np.array(odds))
    return np.column_stack(columns)
