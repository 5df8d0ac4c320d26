"""Simulated voters of known accuracy, and the F1 that theory says they can reach."""

from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from archqa.panel.calibration import VotedCase

ESSENTIAL_SHARE = 0.27
CASES = 1000
SENTENCES_PER_CASE = 20


class Skill(NamedTuple):
    """P(votes yes | essential) and P(votes no | not essential)."""

    sensitivity: float
    specificity: float


SKILLS = {
    "a": Skill(0.8, 0.85),
    "b": Skill(0.7, 0.9),
    "c": Skill(0.85, 0.75),
    "d": Skill(0.6, 0.8),
    "e": Skill(0.55, 0.7),
}


class Pattern(NamedTuple):
    """One pattern of votes: its joint probability with either truth, and its votes for yes."""

    essential: float
    not_essential: float
    yes_votes: int


class Theory(NamedTuple):
    """F1 in percent: the best possible, by majority, and of the best single voter."""

    best: float
    majority: float
    single_voter: float


def simulated_cases(copying: float, cases: int = CASES, seed: int = 4) -> list[VotedCase]:
    """Cases whose voters vote yes or no, overconfidently.

    With probability `copying` a voter decides by a random number that all voters share.
    """
    rng = np.random.default_rng(seed)
    return [_simulated_case(rng, copying) for _ in range(cases)]


def _simulated_case(rng: np.random.Generator, copying: float) -> VotedCase:
    essential = rng.random(SENTENCES_PER_CASE) < ESSENTIAL_SHARE
    shared = rng.random(SENTENCES_PER_CASE)
    ids = tuple(str(number) for number in range(SENTENCES_PER_CASE))
    votes = {}
    for voter, skill in SKILLS.items():
        copies = rng.random(SENTENCES_PER_CASE) < copying
        luck = np.where(copies, shared, rng.random(SENTENCES_PER_CASE))
        yes = np.where(essential, luck < skill.sensitivity, luck < 1 - skill.specificity)
        probabilities = np.where(yes, 0.9, 0.1).tolist()
        votes[voter] = dict(zip(ids, probabilities, strict=True))
    essential_ids = [ids[index] for index in np.flatnonzero(essential)]
    return VotedCase(ids, votes, frozenset(essential_ids))


def theory(copying: float) -> Theory:
    """Enumerate every pattern of votes, with the probability of either truth by Bayes' rule."""
    patterns = _patterns(copying)
    ranked = sorted(patterns, key=lambda pattern: -_posterior(pattern))
    majority = [pattern for pattern in patterns if pattern.yes_votes > len(SKILLS) / 2]
    return Theory(
        best=max(_f1(ranked[:selected]) for selected in range(1, len(ranked) + 1)),
        majority=_f1(majority),
        single_voter=max(_single_voter_f1(skill) for skill in SKILLS.values()),
    )


def _patterns(copying: float) -> list[Pattern]:
    yes_if_essential = [skill.sensitivity for skill in SKILLS.values()]
    yes_if_not_essential = [1 - skill.specificity for skill in SKILLS.values()]
    patterns = []
    for votes in product((False, True), repeat=len(SKILLS)):
        likelihood = _pattern_probability(votes, yes_if_essential, copying)
        false_likelihood = _pattern_probability(votes, yes_if_not_essential, copying)
        pattern = Pattern(
            essential=ESSENTIAL_SHARE * likelihood,
            not_essential=(1 - ESSENTIAL_SHARE) * false_likelihood,
            yes_votes=sum(votes),
        )
        patterns.append(pattern)
    return patterns


def _posterior(pattern: Pattern) -> float:
    return pattern.essential / (pattern.essential + pattern.not_essential)


def _single_voter_f1(skill: Skill) -> float:
    essential = ESSENTIAL_SHARE * skill.sensitivity
    not_essential = (1 - ESSENTIAL_SHARE) * (1 - skill.specificity)
    return _f1([Pattern(essential, not_essential, 1)])


def _pattern_probability(
    votes: tuple[bool, ...], yes_probabilities: list[float], copying: float
) -> float:
    """The probability of a pattern.

    The shared number is integrated over the intervals on which no voter's decision changes.
    """
    edges = [0.0, *sorted(yes_probabilities), 1.0]
    total = 0.0
    for low, high in pairwise(edges):
        probability = 1.0
        for vote, yes_probability in zip(votes, yes_probabilities, strict=True):
            copied_yes = (low + high) / 2 < yes_probability
            yes = copying * copied_yes + (1 - copying) * yes_probability
            probability *= yes if vote else 1 - yes
        total += (high - low) * probability
    return total


def _f1(selected: list[Pattern]) -> float:
    hits = sum(pattern.essential for pattern in selected)
    size = sum(pattern.essential + pattern.not_essential for pattern in selected)
    return 200 * hits / (size + ESSENTIAL_SHARE)
