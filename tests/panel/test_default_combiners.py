"""The shipped combiners are the fit of the recorded votes, and better than no fit on other cases."""

from pathlib import Path

import pytest

from archqa import tasks
from archqa.evaluation.default_combiners import (
    RecordedVotes,
    as_defaults,
    fit_defaults,
    restrict_to_roles,
    voted_cases,
)
from archqa.panel.calibration import VotedCase, evaluate_combiner
from archqa.panel.combiner import UNFITTED
from archqa.panel.decision import ENGINE, GENERAL_EXPERT, SPECIALIST, default_for_voters
from archqa.panel.default_combiner import load_defaults

VOTES = Path(__file__).parent / "recorded_votes"
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"

needs_keys = pytest.mark.skipif(not CASES.is_dir(), reason="the keys are in ../shared/cases")


def recorded(name: str) -> RecordedVotes:
    return RecordedVotes.model_validate_json((VOTES / f"{name}.json").read_text(encoding="utf-8"))


def cases_of(name: str) -> list[VotedCase]:
    keys = tasks.load_key(CASES / name / "archehr-qa_key.json").keys
    return voted_cases(recorded(name), keys)


@needs_keys
def test_the_shipped_combiners_are_the_fit_of_the_recorded_votes() -> None:
    names = ("train", "train-real")
    cases = [case for name in names for case in cases_of(name)]
    fitted = fit_defaults([recorded(name) for name in names], cases)
    assert as_defaults(fitted) == load_defaults()


@needs_keys
@pytest.mark.parametrize("roles", [(GENERAL_EXPERT, SPECIALIST), (GENERAL_EXPERT,), (SPECIALIST,)])
def test_on_cases_that_were_not_fitted_on_they_are_better_than_equal_weights(
    roles: tuple[str, ...],
) -> None:
    combiner = load_defaults().for_roles(roles)
    assert combiner is not None
    cases = [restrict_to_roles(case, roles) for case in cases_of("dev")]
    quality = evaluate_combiner(cases, combiner)
    unfitted = evaluate_combiner(cases, UNFITTED)
    assert quality.f1 > max(unfitted.f1, 90)
    assert quality.calibration_error < min(unfitted.calibration_error, 0.03)


def test_every_combiner_says_where_it_is_from() -> None:
    for combiner in load_defaults().combiners:
        provenance = combiner.provenance
        assert (provenance.run, provenance.cases) == ("train, train-real", 76)
        assert provenance.folds == provenance.cases, "each case was left out once"
        assert provenance.cross_fit_f1
        assert provenance.made_by.startswith("a strong general-purpose model")


def test_models_in_one_role_share_its_weight_and_unknown_roles_have_none() -> None:
    alone = default_for_voters(["general expert @ a", "specialist @ a"])
    shared = default_for_voters(
        ["general expert @ a", "general expert @ b", "specialist @ a", "answer first @ a"]
    )
    assert alone is not None
    assert shared is not None
    assert shared.weights["general expert @ a"] == alone.weights["general expert @ a"] / 2
    assert not shared.has_weight_for("answer first @ a")
    assert default_for_voters(["answer first @ a"]) is None


def test_labels_of_the_six_stages_have_no_default_and_the_engine_in_any_role_is_the_engine() -> (
    None
):
    assert default_for_voters(["general expert", "specialist"]) is None
    assert default_for_voters(["general expert @ embedded"]) is None
    mixed = default_for_voters(["general expert @ embedded", "specialist @ m"])
    assert mixed is not None
    combiner = load_defaults().for_roles([ENGINE, SPECIALIST])
    assert combiner is not None
    assert mixed.weights["general expert @ embedded"] == combiner.weights[ENGINE]


def test_there_is_a_default_with_and_without_the_engine() -> None:
    for roles in ((GENERAL_EXPERT, SPECIALIST), (GENERAL_EXPERT, SPECIALIST, ENGINE)):
        combiner = load_defaults().for_roles(roles)
        assert combiner is not None
        assert set(combiner.weights) == set(roles)
