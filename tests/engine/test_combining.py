"""Weighing votes, against theory: simulated voters of known accuracy, alone, together and copying each other."""

from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

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

SHARE = 0.27
NOTES, SENTENCES = 1000, 20


class Skill(NamedTuple):
    """P(says yes | essential) and P(says no | not essential)."""

    sensitivity: float
    specificity: float


SKILLS = {
    "a": Skill(0.8, 0.85),
    "b": Skill(0.7, 0.9),
    "c": Skill(0.85, 0.75),
    "d": Skill(0.6, 0.8),
    "e": Skill(0.55, 0.7),
}


def simulated(copying: float, notes: int = NOTES, seed: int = 4) -> list[VotedCase]:
    """Notes whose voters say yes or no, overconfidently, and with this chance all look at the same thing."""
    dice = np.random.default_rng(seed)
    return [_note(dice, copying) for _ in range(notes)]


def _note(dice: np.random.Generator, copying: float) -> VotedCase:
    truth, shared = dice.random(SENTENCES) < SHARE, dice.random(SENTENCES)
    ids = tuple(str(each) for each in range(SENTENCES))
    votes = {}
    for voter, skill in SKILLS.items():
        luck = np.where(dice.random(SENTENCES) < copying, shared, dice.random(SENTENCES))
        yes = np.where(truth, luck < skill.sensitivity, luck < 1 - skill.specificity)
        votes[voter] = {
            each: 0.9 if said else 0.1 for each, said in zip(ids, yes.tolist(), strict=True)
        }
    return VotedCase(
        ids, votes, frozenset(each for each, one in zip(ids, truth.tolist(), strict=True) if one)
    )


class Theory(NamedTuple):
    """What voters of these skills can reach at best, by majority, and each alone: F1 in percent."""

    best: float
    majority: float
    alone: float


def theory(copying: float) -> Theory:
    """By enumeration of every pattern of votes: its probability, and the truth's given it (Bayes)."""
    patterns = []
    for said in product((False, True), repeat=len(SKILLS)):
        essential = SHARE * _chance(said, [each.sensitivity for each in SKILLS.values()], copying)
        not_essential = (1 - SHARE) * _chance(
            said, [1 - each.specificity for each in SKILLS.values()], copying
        )
        patterns.append((essential, not_essential, sum(said)))
    odds = sorted(patterns, key=lambda each: -each[0] / (each[0] + each[1]))
    best = max(_f1(odds[: at + 1]) for at in range(len(odds)))
    majority = _f1([each for each in patterns if each[2] > len(SKILLS) / 2])
    alone = max(
        _f1([(SHARE * each.sensitivity, (1 - SHARE) * (1 - each.specificity), 1)])
        for each in SKILLS.values()
    )
    return Theory(best, majority, alone)


def _chance(said: tuple[bool, ...], yes: list[float], copying: float) -> float:
    """The probability of a pattern: the shared luck is integrated over the pieces on which nobody's word changes."""
    edges = [0.0, *sorted(yes), 1.0]
    pieces = [(high - low, (low + high) / 2) for low, high in pairwise(edges)]
    return sum(
        length
        * float(
            np.prod(
                [_says(one, chance, luck, copying) for one, chance in zip(said, yes, strict=True)]
            )
        )
        for length, luck in pieces
    )


def _says(yes: bool, chance: float, luck: float, copying: float) -> float:
    of_yes = copying * (luck < chance) + (1 - copying) * chance
    return of_yes if yes else 1 - of_yes


def _f1(taken: list[tuple[float, float, int]]) -> float:
    hits, picked = sum(each[0] for each in taken), sum(each[0] + each[1] for each in taken)
    return 200 * hits / (picked + SHARE)


def by_majority(cases: list[VotedCase]) -> float:
    sets = [
        frozenset(
            each for each in case.ids if sum(said[each] > 0.5 for said in case.votes.values()) > 2.5
        )
        for case in cases
    ]
    return score_selections(cases, [dict.fromkeys(case.ids, 0.5) for case in cases], sets).f1


def best_alone(cases: list[VotedCase]) -> float:
    """The best voter's own yes."""
    found = []
    for voter in SKILLS:
        sets = [
            frozenset(each for each in case.ids if case.votes[voter][each] > 0.5) for case in cases
        ]
        found.append(
            score_selections(cases, [dict.fromkeys(case.ids, 0.5) for case in cases], sets).f1
        )
    return max(found)


@pytest.mark.parametrize(
    "copying", [0.0, 0.3, 0.6], ids=["independent", "correlated", "much alike"]
)
def test_votes_together_beat_the_majority_and_every_voter_by_the_margin_that_theory_gives(
    copying: float,
) -> None:
    cases, expected = simulated(copying), theory(copying)
    held = evaluate_cross_fit(cases)
    noise = 0.7  # two standard errors of a micro F1 over 1,000 notes of 20 sentences
    assert held.f1 > expected.best - noise
    assert held.f1 - by_majority(cases) > expected.best - expected.majority - noise
    assert held.f1 - best_alone(cases) > expected.best - expected.alone - noise
    assert held.f1 > by_majority(cases)
    assert held.f1 > best_alone(cases)
    assert held.calibration_error <= 0.05


def test_copies_of_a_voter_share_its_weight() -> None:
    cases = simulated(copying=0.0, notes=200)
    doubled = [case._replace(votes={**case.votes, "a again": case.votes["a"]}) for case in cases]
    alone, together = fit_combiner(cases).weights, fit_combiner(doubled).weights
    assert together["a"] == pytest.approx(together["a again"], abs=1e-6)
    assert together["a"] + together["a again"] == pytest.approx(alone["a"], abs=0.05)


def test_as_few_as_28_notes_do_no_harm() -> None:
    """Four draws of as many notes as there are dev cases, each tried on notes it was not fitted on."""
    tried = simulated(copying=0.4, seed=99)
    for seed in range(4):
        fitted = evaluate_combiner(tried, fit_combiner(simulated(copying=0.4, notes=28, seed=seed)))
        assert fitted.f1 > evaluate_combiner(tried, UNFITTED).f1
        assert fitted.calibration_error <= 0.05


def test_with_one_voter_nothing_changes() -> None:
    cases = restrict_to_voter(simulated(copying=0.0, notes=50), "b")
    fitted = fit_combiner(cases)
    for case in cases:
        for combiner in (fitted, UNFITTED):
            assert combiner.probabilities(case.votes, case.ids) == case.votes["b"]
        said = case.votes["b"]
        assert fitted.choose(said) == UNFITTED.choose(said)


def test_a_missing_vote_is_no_evidence() -> None:
    combiner = Combiner(weights={"a": 1.0, "b": 1.0}, bias=-1.0, centre=-1.0)
    silent = combiner.probabilities({"a": {"1": 0.8}}, ["1"])["1"]
    at_the_centre = 1 / (1 + np.exp(1.0))
    indifferent = combiner.probabilities({"a": {"1": 0.8}, "b": {"1": at_the_centre}}, ["1"])["1"]
    assert silent == pytest.approx(indifferent)


def test_a_sentence_nobody_voted_on_is_not_chosen() -> None:
    said = UNFITTED.probabilities({"a": {"1": 0.9}}, ["1", "2"])
    assert said["2"] == 0.0
    assert UNFITTED.choose(said) == {"1"}


def test_a_threshold_replaces_the_expected_f_and_never_empties_the_set() -> None:
    said = {"1": 0.2, "2": 0.5, "3": 0.7}
    assert UNFITTED.choose(said, threshold=0.4) == {"2", "3"}
    assert UNFITTED.choose(said, threshold=0.9) == {"3"}


def test_looks_of_one_voter_are_pooled_in_log_odds() -> None:
    assert pool([0.5, 0.9]) == pytest.approx(0.75)  # odds 1 and 9: their geometric mean is 3
    assert pool([0.995]) == 0.995


def test_a_combiner_is_a_small_file_that_tells_where_it_is_from(tmp_path: Path) -> None:
    fitted = fit_combiner(simulated(copying=0.2, notes=40))
    save(fitted, tmp_path / "c.json")
    assert (tmp_path / "c.json").stat().st_size < 2000
    assert load(tmp_path / "c.json") == fitted
    (tmp_path / "none.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="is not a combiner"):
        load(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "absent.json")
