"""Fits the combiners that come with archqa, on recorded votes of the panel.

`record_votes` keeps the votes of a finished run of the panel, without a word of its notes;
`tests/panel/recorded_votes` has those of the shipped fit, and `tests/panel/test_default_combiners.py` repeats
it. There is one combiner for each set of roles that may vote. The embedded engine was fitted on the cases of
../shared/cases/train and train-real, so its votes there are by models fitted without the case
(`archqa.engine.training.regression.cross_fit`).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from archqa.core.key import CaseKey
from archqa.core.value import FrozenModel
from archqa.evaluation.stored_votes import iter_voted_records
from archqa.panel.calibration import (
    SelectionQuality,
    VotedCase,
    evaluate_cross_fit,
    fit_combiner,
)
from archqa.panel.combiner import Combiner, Provenance
from archqa.panel.decision import ANSWER_FIRST, ENGINE, GENERAL_EXPERT, SPECIALIST, role_of
from archqa.panel.default_combiner import DefaultCombiners, pool_by_role
from archqa.runs.run import Run

JUDGES = (GENERAL_EXPERT, SPECIALIST)
"""The roles of which at least one must vote."""

ROLES = (*JUDGES, ANSWER_FIRST, ENGINE)


class RecordedVotes(FrozenModel):
    """Case id → role → sentence id → probability, and who voted when by which prompts."""

    model: str
    recorded_on: str
    cases_of: str
    prompts: dict[str, str]
    votes: dict[str, dict[str, dict[str, float]]]

    def with_engine(self, engine_votes: Mapping[str, Mapping[str, float]]) -> "RecordedVotes":
        """The same with the embedded engine's votes on these cases."""
        votes = {}
        for case_id, by_role in self.votes.items():
            votes[case_id] = {**by_role, ENGINE: dict(engine_votes[case_id])}
        return self.model_copy(update={"votes": votes})


class FittedCombiner(NamedTuple):
    """A combiner, and the quality of its like on each case when that case was left out of the fit."""

    combiner: Combiner
    left_out: SelectionQuality


def record_votes(run: Run, model: str) -> RecordedVotes:
    """The votes of a finished run of the panel, by role."""
    votes = {}
    for case, _, by_voter in iter_voted_records(run):
        votes[case.id] = pool_by_role(by_voter, {voter: role_of(voter) for voter in by_voter})
    return RecordedVotes(
        model=model,
        recorded_on=run.manifest.started_at.date().isoformat(),
        cases_of=Path(run.manifest.data.path).stem,
        prompts=dict(run.manifest.prompts),
        votes=votes,
    )


def voted_cases(recorded: RecordedVotes, keys: Mapping[str, CaseKey]) -> list[VotedCase]:
    """The recorded votes with the labels of a key. Raises `KeyError` for a case that it lacks."""
    cases = []
    for case_id, votes in recorded.votes.items():
        key = keys[case_id]
        cases.append(VotedCase(tuple(key.labels), votes, key.essential))
    return cases


def restrict_to_roles(case: VotedCase, roles: Iterable[str]) -> VotedCase:
    """The case with the votes of these roles."""
    return case._replace(votes={role: case.votes[role] for role in roles})


def fit_defaults(
    recorded: Sequence[RecordedVotes], cases: Sequence[VotedCase]
) -> list[FittedCombiner]:
    """A combiner for each set of roles that has a judge in it."""
    return [_fit_roles(roles, recorded, cases) for roles in _role_sets(cases)]


def as_defaults(fitted: Iterable[FittedCombiner]) -> DefaultCombiners:
    """The content of `archqa/panel/data/default_combiners.json`."""
    return DefaultCombiners(combiners=tuple(each.combiner for each in fitted))


def _role_sets(cases: Sequence[VotedCase]) -> list[tuple[str, ...]]:
    voting = [role for role in ROLES if all(role in case.votes for case in cases)]
    sets: list[tuple[str, ...]] = []
    for size in range(1, len(voting) + 1):
        sets.extend(roles for roles in combinations(voting, size) if set(roles) & set(JUDGES))
    return sets


def _fit_roles(
    roles: tuple[str, ...], recorded: Sequence[RecordedVotes], cases: Sequence[VotedCase]
) -> FittedCombiner:
    cases = [restrict_to_roles(case, roles) for case in cases]
    left_out = evaluate_cross_fit(cases, folds=len(cases))
    provenance = _provenance(recorded, cases, left_out)
    combiner = fit_combiner(cases, folds=len(cases)).model_copy(update={"provenance": provenance})
    return FittedCombiner(combiner, left_out)


def _provenance(
    recorded: Sequence[RecordedVotes], cases: Sequence[VotedCase], left_out: SelectionQuality
) -> Provenance:
    models = dict.fromkeys(f"{each.model}, {each.recorded_on}" for each in recorded)
    return Provenance(
        run=", ".join(each.cases_of for each in recorded),
        cases=len(cases),
        sentences=sum(len(case.ids) for case in cases),
        folds=len(cases),
        cross_fit_f1=round(left_out.f1, 2),
        calibration_error=round(left_out.calibration_error, 4),
        made_by="; ".join(models),
    )
