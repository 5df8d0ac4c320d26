"""Combining votes, compared with theory: simulated voters, alone, together and correlated."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from archqa.core.probability import pool
from archqa.errors import InputError
from archqa.panel.calibration import (
    VotedCase,
    evaluate_combiner,
    evaluate_cross_fit,
    fit_combiner,
    restrict_to_voter,
    score_selections,
)
from archqa.panel.combiner import UNFITTED, Combiner, load, save

from .simulated_votes import SKILLS, simulated_cases, theory


def majority_f1(cases: list[VotedCase]) -> float:
    def has_majority(case: VotedCase, sentence_id: str) -> bool:
        yes_votes = sum(by_sentence[sentence_id] > 0.5 for by_sentence in case.votes.values())
        return yes_votes > len(SKILLS) / 2

    return selection_f1(cases, has_majority)


def best_single_voter_f1(cases: list[VotedCase]) -> float:
    scores = []
    for voter in SKILLS:

        def votes_yes(case: VotedCase, sentence_id: str, voter: str = voter) -> bool:
            return case.votes[voter][sentence_id] > 0.5

        scores.append(selection_f1(cases, votes_yes))
    return max(scores)


def selection_f1(cases: list[VotedCase], is_selected: Callable[[VotedCase, str], bool]) -> float:
    selections = []
    probabilities = []
    for case in cases:
        selected = [sentence_id for sentence_id in case.ids if is_selected(case, sentence_id)]
        selections.append(frozenset(selected))
        probabilities.append(dict.fromkeys(case.ids, 0.5))
    return score_selections(cases, probabilities, selections).f1


@pytest.mark.parametrize(
    "copying", [0.0, 0.3, 0.6], ids=["independent", "correlated", "strongly correlated"]
)
def test_combined_votes_beat_majority_and_single_voters_by_the_margin_of_theory(
    copying: float,
) -> None:
    cases = simulated_cases(copying)
    expected = theory(copying)
    combined = evaluate_cross_fit(cases)
    majority = majority_f1(cases)
    single_voter = best_single_voter_f1(cases)
    noise = 0.7  # two standard errors of a micro F1 over 1,000 notes of 20 sentences
    assert combined.f1 > expected.best - noise
    assert combined.f1 - majority > expected.best - expected.majority - noise
    assert combined.f1 - single_voter > expected.best - expected.single_voter - noise
    assert combined.f1 > majority
    assert combined.f1 > single_voter
    assert combined.calibration_error <= 0.05


def test_copies_of_a_voter_share_its_weight() -> None:
    cases = simulated_cases(copying=0.0, cases=200)
    cases_with_copy = []
    for case in cases:
        votes = {**case.votes, "copy of a": case.votes["a"]}
        cases_with_copy.append(case._replace(votes=votes))
    weights = fit_combiner(cases).weights
    shared_weights = fit_combiner(cases_with_copy).weights
    copy_weight = shared_weights["copy of a"]
    assert shared_weights["a"] == pytest.approx(copy_weight, abs=1e-6)
    assert shared_weights["a"] + copy_weight == pytest.approx(weights["a"], abs=0.05)


def test_a_fit_on_28_cases_is_better_than_none() -> None:
    """Four draws of as many cases as dev has, evaluated on cases outside the fit."""
    evaluation_cases = simulated_cases(copying=0.4, seed=99)
    unfitted_quality = evaluate_combiner(evaluation_cases, UNFITTED)
    for seed in range(4):
        combiner = fit_combiner(simulated_cases(copying=0.4, cases=28, seed=seed))
        quality = evaluate_combiner(evaluation_cases, combiner)
        assert quality.f1 > unfitted_quality.f1
        assert quality.calibration_error <= 0.05


def test_a_single_voter_is_used_as_it_is_without_a_fit_and_calibrated_with_one() -> None:
    cases = restrict_to_voter(simulated_cases(copying=0.0, cases=50), "b")
    for case in cases:
        assert UNFITTED.probabilities(case.votes, case.ids) == case.votes["b"]
    before = evaluate_combiner(cases, UNFITTED).calibration_error
    assert evaluate_combiner(cases, fit_combiner(cases)).calibration_error < before


def test_a_missing_vote_is_no_evidence() -> None:
    combiner = Combiner(weights={"a": 1.0, "b": 1.0}, bias=-1.0, centre=-1.0)
    centre = 1 / (1 + np.exp(1.0))
    without_vote = combiner.probabilities({"a": {"1": 0.8}}, ["1"])
    with_neutral_vote = combiner.probabilities({"a": {"1": 0.8}, "b": {"1": centre}}, ["1"])
    assert without_vote["1"] == pytest.approx(with_neutral_vote["1"])


def test_a_sentence_without_votes_is_not_chosen() -> None:
    probabilities = UNFITTED.probabilities({"a": {"1": 0.9}}, ["1", "2"])
    assert probabilities["2"] == 0.0
    assert UNFITTED.choose(probabilities) == {"1"}


def test_a_threshold_replaces_the_expected_f_and_never_empties_the_set() -> None:
    probabilities = {"1": 0.2, "2": 0.5, "3": 0.7}
    assert UNFITTED.choose(probabilities, threshold=0.4) == {"2", "3"}
    assert UNFITTED.choose(probabilities, threshold=0.9) == {"3"}


def test_repeated_votes_of_a_voter_are_pooled_in_log_odds() -> None:
    assert pool([0.5, 0.9]) == pytest.approx(0.75)  # odds 1 and 9: their geometric mean is 3
    assert pool([0.995]) == 0.995


def test_a_saved_combiner_is_small_and_loads_unchanged(tmp_path: Path) -> None:
    fitted = fit_combiner(simulated_cases(copying=0.2, cases=40))
    file = tmp_path / "combiner.json"
    save(fitted, file)
    assert file.stat().st_size < 2000
    assert load(file) == fitted


def test_a_malformed_and_an_absent_combiner_are_input_errors(tmp_path: Path) -> None:
    malformed = tmp_path / "malformed.json"
    malformed.write_text('{"a": 1}')
    with pytest.raises(InputError, match="is not a combiner"):
        load(malformed)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "absent.json")
