"""Percentages count where they say more than the labels; where they do not, the labels count."""

import random

import pytest

from archqa.core.judgement import Judgement, Relevance
from archqa.panel.decision import pool_votes, select_evidence
from archqa.panel.percentages import are_useful
from archqa.panel.settings import PanelSettings

IDS = tuple(map(str, range(1, 21)))
ESSENTIAL = frozenset(("2", "5", "6", "11", "17"))


def judged(percent_of: dict[str, float]) -> tuple[Judgement, ...]:
    return tuple(
        Judgement(
            sentence_id=sentence_id,
            label=Relevance.ESSENTIAL if sentence_id in ESSENTIAL else Relevance.NOT_RELEVANT,
            probability=percent_of[sentence_id],
        )
        for sentence_id in IDS
    )


def graded() -> dict[str, float]:
    """Percentages of a judge that means them: .55 to .95 for essential sentences, .02 to .4 else."""
    chance = random.Random(1)
    return {
        sentence_id: chance.choice((0.55, 0.75, 0.95) if sentence_id in ESSENTIAL else (0.02, 0.4))
        for sentence_id in IDS
    }


def always(essential: float, other: float) -> dict[str, float]:
    return {sentence_id: essential if sentence_id in ESSENTIAL else other for sentence_id in IDS}


def noise(seed: int = 1) -> dict[str, float]:
    chance = random.Random(seed)
    return {sentence_id: chance.random() for sentence_id in IDS}


USELESS = {
    "one value a label": always(0.97, 0.9),
    "always half": always(0.5, 0.5),
    "the wrong way round": always(0.1, 0.9) | {"2": 0.2, "3": 0.8},
    "noise": noise(),
    "a narrow range": always(0.6, 0.45) | {"2": 0.62, "3": 0.44},
}


def test_percentages_that_grade_are_useful() -> None:
    assert are_useful(judged(graded()))


def test_noise_is_seldom_taken_for_percentages() -> None:
    taken = [seed for seed in range(200) if are_useful(judged(noise(seed)))]
    assert len(taken) <= 4


@pytest.mark.parametrize("name", USELESS)
def test_a_model_whose_percentages_say_nothing_does_not_lose_to_its_own_labels(name: str) -> None:
    judgements = judged(USELESS[name])
    assert not are_useful(judgements)
    votes = pool_votes({"general expert @ m": judgements})
    assert select_evidence(IDS, votes, PanelSettings()).essential == ESSENTIAL


def test_two_roles_whose_percentages_say_nothing_choose_what_both_label() -> None:
    judgements = {
        "general expert @ m": judged(USELESS["always half"]),
        "cardiology @ m": judged(USELESS["one value a label"]),
    }
    votes = pool_votes(judgements, ("cardiology",))
    assert select_evidence(IDS, votes, PanelSettings()).essential == ESSENTIAL


def test_voters_go_by_their_listed_names_and_their_agents_names() -> None:
    votes = pool_votes(
        {"general expert @ m": judged(graded()), "answer first @ m": judged(noise())}
    )
    for name in ("general expert @ m", "general expert", "general_expert"):
        alone = select_evidence(IDS, votes, PanelSettings(voters=name))
        assert alone == select_evidence(
            IDS, {"general expert @ m": votes["general expert @ m"]}, PanelSettings(voters=name)
        )


def test_a_voter_that_nobody_is_is_remarked() -> None:
    votes = pool_votes({"general expert @ m": judged(graded())})
    selection = select_evidence(IDS, votes, PanelSettings(voters="general_expert,speicalist"))
    assert selection.remarks == ("no vote of speicalist, which the setting voters names",)
