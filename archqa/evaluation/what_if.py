"""A run decided otherwise: another threshold, other voters, another combiner, from the votes it kept.

Where the evidence stays the same the answer does; where it changes, the answer is put together from the note's own
sentences, since nobody is asked to write another.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from archqa import tasks
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.engine import Engine
from archqa.errors import CallerError
from archqa.evaluation.stored_votes import VotedRecord, iter_voted_records
from archqa.panel.calibration import SelectionQuality, VotedCase, score_selections
from archqa.panel.decision import VERIFICATION, drop_rejected, is_enabled_voter, select_evidence
from archqa.runs.folder import RunFolder, new_run_name
from archqa.runs.record import CaseRecord, RunManifest, RunStatus
from archqa.runs.run import Run, write_cases
from archqa.settings import load_settings
from archqa.settings.names import merge, nest
from archqa.tasks.archehr_2025.pipelines.panel import PANEL
from archqa.tasks.archehr_2025.settings import NotePanelSettings

CHANGEABLE = ("threshold", "voters", "combiner", "operating_point", "verify")
"""Settings that decide from votes and ask nobody."""

REDECIDED = "another set was chosen from the kept votes: the answer is in the note's own words"


class Redecided(NamedTuple):
    """A case decided anew: its probabilities, its evidence, and whether that differs from what the run chose."""

    kept: VotedRecord
    probabilities: dict[str, float]
    essential: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether another set was chosen."""
        return set(self.essential) != set(self.kept.record.evidence)


class WhatIfResult(NamedTuple):
    """A run as it was and as it would have been; scores only where there is a key, the new run only if written."""

    voters: tuple[str, ...]
    cases: int
    changed: int
    before: SelectionQuality | None
    after: SelectionQuality | None
    run: Path | None

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa what-if --json` prints."""
        return {
            "voters": list(self.voters),
            "cases": self.cases,
            "changed": self.changed,
            "before": self.before._asdict() if self.before else None,
            "after": self.after._asdict() if self.after else None,
            "run": str(self.run) if self.run else None,
        }


def what_if(
    target: Path, settings: NotePanelSettings, *, key: Path | None = None, out: Path | None = None
) -> WhatIfResult:
    """Decide a run anew by `settings`; with `out`, leave the result there as a run of its own.

    Raises `InputError` for what is no run, `CallerError` where no votes were kept or none of them counts.
    """
    run = Run.open(target)
    decided = [_decided(each, settings) for each in iter_voted_records(run)]
    if not decided:
        raise CallerError(f"{run.path} kept no votes.\nRuns of panel and dmis over notes do.")
    key = key or tasks.find_key(run.manifest.data.path)
    keys = tasks.load_key(key).keys if key else {}
    voters = dict.fromkeys(
        voter for each in decided for voter in each.kept.votes if is_enabled_voter(voter, settings)
    )
    return WhatIfResult(
        voters=tuple(voters),
        cases=len(decided),
        changed=sum(each.changed for each in decided),
        before=_quality(decided, keys, before=True),
        after=_quality(decided, keys, before=False),
        run=_written(run, decided, settings, out) if out else None,
    )


def settings_from_run(run: Path, assignments: Iterable[str] = ()) -> NotePanelSettings:
    """The settings of a run with what is to be otherwise, as `key=value` words.

    Raises `CallerError` for settings that change no decision, or not by votes that were kept.
    """
    assignments = tuple(assignments)
    names = {assignment.partition("=")[0].strip() for assignment in assignments}
    foreign = sorted({name.removeprefix("pipelines.panel.") for name in names} - set(CHANGEABLE))
    if foreign:
        raise CallerError(
            f"{', '.join(foreign)} cannot be changed afterwards.\nThese can: {', '.join(CHANGEABLE)}."
        )
    before = nest(Run.open(run).manifest.settings).get("pipelines", {})
    in_run: dict[str, Any] = {}
    for section in before.values():
        in_run.update(section)
    panel = {name: in_run[name] for name in NotePanelSettings.model_fields if name in in_run}
    settings = load_settings(typed={"pipelines": {"panel": panel}}, assignments=assignments)
    return cast("NotePanelSettings", settings.for_pipeline(PANEL))


def _decided(kept: VotedRecord, settings: NotePanelSettings) -> Redecided:
    chosen = select_evidence(kept.case.sentence_ids, kept.votes, settings)
    essential = drop_rejected(chosen, _removed(kept.record) if settings.verify else ())
    return Redecided(kept, chosen.probabilities, kept.case.in_note_order(essential), chosen.remarks)


def _removed(record: CaseRecord) -> Iterable[str]:
    """What the run's second look took away."""
    looks = [given for name, given in record.judgements.items() if name.startswith(VERIFICATION)]
    return {
        each.sentence_id
        for given in looks
        for each in given
        if each.label is not Relevance.ESSENTIAL
    }


def _quality(
    decided: list[Redecided], keys: dict[str, CaseKey], *, before: bool
) -> SelectionQuality | None:
    rows = [
        each for each in decided if each.kept.case.id in keys and keys[each.kept.case.id].labels
    ]
    if not rows:
        return None
    cases = [
        VotedCase(each.kept.case.sentence_ids, each.kept.votes, keys[each.kept.case.id].essential)
        for each in rows
    ]
    sets = [frozenset(each.kept.record.evidence if before else each.essential) for each in rows]
    return score_selections(cases, [each.probabilities for each in rows], sets)


def _written(run: Run, decided: list[Redecided], settings: NotePanelSettings, out: Path) -> Path:
    folder = RunFolder.create(out)
    folder.write_manifest(_manifest(run, settings))
    write_cases(folder, run.manifest.task, run.cases)
    anew = {each.kept.case.id: each for each in decided}
    for record in run.iter_records():
        folder.add(_record(anew[record.id], settings) if record.id in anew else record)
    Run(folder).write_submission()
    return folder.path


def _manifest(run: Run, settings: NotePanelSettings) -> RunManifest:
    now, was = datetime.now(UTC), run.manifest
    return was.model_copy(
        update={
            "run": new_run_name(now, was.task, was.pipeline),
            "status": RunStatus.FINISHED,
            "started_at": now,
            "ended_at": now,
            "seconds": 0.0,
            "settings": _changed_settings(was.settings, settings),
            "minds": {**was.minds, "what_if": f"votes of {was.run}"},
        }
    )


def _changed_settings(before: dict[str, Any], settings: NotePanelSettings) -> dict[str, Any]:
    changed = nest(before)
    decided_by = settings.model_dump(mode="json", include=set(CHANGEABLE))
    merge(changed, {"pipelines": {PANEL.name: decided_by}})
    return changed


def _record(each: Redecided, settings: NotePanelSettings) -> CaseRecord:
    record = each.kept.record
    if not each.changed:
        return record
    limit = settings.word_limit
    answer = Engine.load().compose(each.kept.case, frozenset(each.essential), word_limit=limit)
    remarks = (*record.remarks, *each.remarks, REDECIDED)
    return record.model_copy(
        update={"answer": answer, "evidence": each.essential, "remarks": remarks}
    )
