"""Selects a run's evidence again from its stored votes: another threshold, voters or combiner.

If the evidence of a case stays the same, so does its answer; if it changes, the answer is extracted from the
note's own sentences, since no model is called.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from archqa import tasks
from archqa.core.id_lists import list_ids
from archqa.core.judgement import Judgement
from archqa.core.key import CaseKey
from archqa.core.near_misses import did_you_mean
from archqa.engine import Engine
from archqa.errors import CallerError
from archqa.evaluation.stored_votes import (
    VotedRecord,
    iter_voted_records,
    labelled_case,
    provenance_of,
)
from archqa.evaluation.threshold_curve import CurvePoint, threshold_curve
from archqa.panel.calibration import SelectionQuality, VotedCase, score_selections
from archqa.panel.decision import VERIFICATION, apply_checks, is_enabled_voter, select_evidence
from archqa.runs.folder import RunFolder, new_run_name
from archqa.runs.open_run import created_folder, removed_on_failure
from archqa.runs.record import CaseRecord, RunManifest, RunStatus
from archqa.runs.run import Run, write_cases
from archqa.settings import OnIgnored, load_settings
from archqa.settings.names import merge, nest
from archqa.tasks.archehr_2025.pipelines.panel import PANEL
from archqa.tasks.archehr_2025.settings import NotePanelSettings
from archqa.tasks.key_provenance import KeyProvenance

CHANGEABLE = ("threshold", "voters", "combiner", "operating_point", "verify")
"""Settings of the selection, which need no model."""

REDECIDED = "another set was chosen from the kept votes: the answer is in the note's own words"


class Redecided(NamedTuple):
    """A case with its new probabilities and evidence."""

    voted: VotedRecord
    probabilities: dict[str, float]
    essential: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the evidence differs from the run's."""
        return set(self.essential) != set(self.voted.record.evidence)


class WhatIfResult(NamedTuple):
    """A run before and after; qualities and the curve over thresholds only with a key, `run` only
    if it was written.
    """

    voters: tuple[str, ...]
    cases: int
    changed: int
    before: SelectionQuality | None
    after: SelectionQuality | None
    curve: tuple[CurvePoint, ...]
    run: Path | None
    key: KeyProvenance | None = None

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa what-if --json` prints."""
        return {
            "voters": list(self.voters),
            "cases": self.cases,
            "changed": self.changed,
            "before": self.before._asdict() if self.before else None,
            "after": self.after._asdict() if self.after else None,
            "curve": [point._asdict() for point in self.curve],
            "run": str(self.run) if self.run else None,
            "key": self.key.as_json() if self.key else None,
        }


def what_if(
    target: Path, settings: NotePanelSettings, *, key: Path | None = None, out: Path | None = None
) -> WhatIfResult:
    """Select a run's evidence again by `settings`; with `out`, write the result as a run of its own.

    Raises `InputError` if the target is no run, `CallerError` if it has no votes or none is enabled.
    """
    run = Run.open(target)
    decisions = [_redecide(voted, settings) for voted in iter_voted_records(run)]
    if not decisions:
        raise CallerError(f"{run.path} kept no votes.\nRuns of panel and dmis over notes do.")
    key = key or tasks.find_key(run.manifest.data.path)
    key_file = tasks.load_key(key) if key else None
    labelled = _labelled(decisions, key_file.keys if key_file else {})
    path = None
    if out:
        path = _write_run(run, decisions, settings, out)
    return WhatIfResult(
        voters=_enabled_voters(decisions, settings),
        cases=len(decisions),
        changed=sum(decision.changed for decision in decisions),
        before=_quality(labelled, before=True),
        after=_quality(labelled, before=False),
        curve=_curve(labelled),
        run=path,
        key=provenance_of(key_file, [run]) if key_file else None,
    )


def settings_from_run(
    run: Path, assignments: Iterable[str] = (), on_ignored: OnIgnored = lambda _: None
) -> NotePanelSettings:
    """The settings of a run, changed by `key=value` assignments.

    Raises `CallerError` for settings that do not affect the selection from stored votes.
    """
    assignments = tuple(assignments)
    names = {_setting_name(assignment) for assignment in assignments}
    foreign = sorted(names.difference(CHANGEABLE))
    if foreign:
        nearest = did_you_mean(foreign[0], CHANGEABLE)
        advice = f"{nearest} These can: {', '.join(CHANGEABLE)}."
        raise CallerError(f"{list_ids(foreign)} cannot be changed afterwards.\n{advice.strip()}")
    typed = {"pipelines": {"panel": _panel_settings(Run.open(run))}}
    settings = load_settings(typed=typed, assignments=assignments, on_ignored=on_ignored)
    return cast("NotePanelSettings", settings.for_pipeline(PANEL))


def _setting_name(assignment: str) -> str:
    name, _, _ = assignment.partition("=")
    return name.strip().removeprefix("pipelines.panel.")


def _panel_settings(run: Run) -> dict[str, Any]:
    """The settings of a run that the panel has too, whatever the run's pipeline."""
    in_run: dict[str, Any] = {}
    sections = nest(run.manifest.settings).get("pipelines", {})
    for section in sections.values():
        in_run.update(section)
    return {name: in_run[name] for name in NotePanelSettings.model_fields if name in in_run}


def _enabled_voters(decisions: Iterable[Redecided], settings: NotePanelSettings) -> tuple[str, ...]:
    """The voters that count, in order of first appearance."""
    voters: dict[str, None] = {}
    for decision in decisions:
        for voter in decision.voted.votes:
            if is_enabled_voter(voter, settings):
                voters[voter] = None
    return tuple(voters)


def _redecide(voted: VotedRecord, settings: NotePanelSettings) -> Redecided:
    selection = select_evidence(voted.case.sentence_ids, voted.votes, settings)
    checks = _checks(voted.record) if settings.verify else []
    essential = voted.case.in_note_order(apply_checks(selection, checks))
    return Redecided(voted, selection.probabilities, essential, selection.remarks)


def _checks(record: CaseRecord) -> list[tuple[Judgement, ...]]:
    """The run's own verification of borderline sentences."""
    return [
        judgements
        for voter, judgements in record.judgements.items()
        if voter.startswith(VERIFICATION)
    ]


def _labelled(
    decisions: list[Redecided], keys: Mapping[str, CaseKey]
) -> list[tuple[Redecided, VotedCase]]:
    """The decisions on cases that the key labels."""
    labelled = []
    for decision in decisions:
        case, _, votes = decision.voted
        key = keys.get(case.id)
        if key is not None and key.labels:
            labelled.append((decision, labelled_case(case, votes, key)))
    return labelled


def _quality(
    labelled: list[tuple[Redecided, VotedCase]], *, before: bool
) -> SelectionQuality | None:
    """The quality of the run's selection, or of the new one; None without labels."""
    if not labelled:
        return None
    selections = []
    for decision, voted in labelled:
        evidence = decision.voted.record.evidence if before else decision.essential
        selections.append(frozenset(evidence) & frozenset(voted.ids))
    cases = [case for _, case in labelled]
    return score_selections(cases, [decision.probabilities for decision, _ in labelled], selections)


def _curve(labelled: list[tuple[Redecided, VotedCase]]) -> tuple[CurvePoint, ...]:
    """The curve over thresholds of the combined probabilities; empty without labels."""
    if not labelled:
        return ()
    probabilities = [decision.probabilities for decision, _ in labelled]
    return threshold_curve([case for _, case in labelled], probabilities)


def _write_run(
    run: Run, decisions: list[Redecided], settings: NotePanelSettings, out: Path
) -> Path:
    with created_folder(out) as (folder, _), removed_on_failure(folder):
        write_cases(folder, run.manifest.task, run.cases)
        _add_records(folder, run, decisions, settings)
        # The manifest comes late: it says that the run has finished.
        folder.write_manifest(_manifest(run, settings))
        Run(folder).write_submission()
    return folder.path


def _add_records(
    folder: RunFolder, run: Run, decisions: list[Redecided], settings: NotePanelSettings
) -> None:
    by_id = {decision.voted.case.id: decision for decision in decisions}
    for record in run.iter_records():
        decision = by_id.get(record.id)
        if decision and decision.changed:
            record = _changed_record(decision, settings)
        folder.add(record)


def _manifest(run: Run, settings: NotePanelSettings) -> RunManifest:
    now = datetime.now(UTC)
    was = run.manifest
    return was.model_copy(
        update={
            "run": new_run_name(now, was.task, was.pipeline),
            "status": RunStatus.FINISHED,
            "started_at": now,
            "ended_at": now,
            "seconds": 0.0,
            "settings": _changed_settings(was.settings, settings),
            "backends": {**was.backends, "what_if": f"votes of {was.run}"},
        }
    )


def _changed_settings(before: dict[str, Any], settings: NotePanelSettings) -> dict[str, Any]:
    changed = nest(before)
    decided_by = settings.model_dump(mode="json", include=set(CHANGEABLE))
    merge(changed, {"pipelines": {PANEL.name: decided_by}})
    return changed


def _changed_record(decision: Redecided, settings: NotePanelSettings) -> CaseRecord:
    record = decision.voted.record
    essential = frozenset(decision.essential)
    answer = Engine.load().compose(decision.voted.case, essential, word_limit=settings.word_limit)
    remarks = (*record.remarks, *decision.remarks, REDECIDED)
    return record.model_copy(
        update={"answer": answer, "evidence": decision.essential, "remarks": remarks}
    )
