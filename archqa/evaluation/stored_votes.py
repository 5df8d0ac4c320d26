"""Reads the votes stored with a run, for fitting a combiner or selecting evidence again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.errors import CallerError
from archqa.panel.calibration import VotedCase
from archqa.panel.combiner import Votes
from archqa.panel.decision import pool_votes
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.runs.run import Run
from archqa.tasks.key_provenance import KeyProvenance, ScoredKeys, key_provenance
from archqa.tasks.task import KeyFile


class VotedRecord(NamedTuple):
    """A case of a run with its record and its votes."""

    case: Case
    record: CaseRecord
    votes: Votes


def iter_voted_records(run: Run) -> Iterator[VotedRecord]:
    """Every answered case that has votes, in file order. Raises `CallerError` if the run reads no notes."""
    for case in run.cases:
        if not isinstance(case, Case):
            raise CallerError(
                f"{run.path} is a run of {run.manifest.task}, which has no votes on sentences."
            )
        record = run.get_record(case.id)
        if record is None or record.status is not CaseStatus.ANSWERED:
            continue
        if record.judgements:
            yield VotedRecord(case, record, pool_votes(record.judgements, record.experts))


def labelled_case(case: Case, votes: Votes, key: CaseKey) -> VotedCase:
    """A voted case with its labels; sentences of which a key of reviews says nothing do not count."""
    undecided = key.without_label(case.sentence_ids)
    ids = tuple(name for name in case.sentence_ids if name not in undecided)
    return VotedCase(ids, votes, key.essential)


def labelled_cases(run: Run, keys: Mapping[str, CaseKey]) -> list[VotedCase]:
    """The voted cases that the key labels, ready for fitting. Raises `CallerError` if there is none."""
    cases = []
    for case, _, votes in iter_voted_records(run):
        key = keys.get(case.id)
        if key is not None and key.labels:
            cases.append(labelled_case(case, votes, key))
    if not cases:
        raise CallerError(
            f"No case of {run.path} has both votes and labels.\nIs this the key of its cases?"
        )
    return cases


def provenance_of(key_file: KeyFile, runs: Sequence[Run]) -> KeyProvenance:
    """What a key is to these runs of the same cases: only the keys of their cases count."""
    sentence_ids = {case.id: case.sentence_ids for run in runs for case in run.notes}
    keys = {case_id: key for case_id, key in key_file.keys.items() if case_id in sentence_ids}
    folders = [run.path for run in runs]
    scored = ScoredKeys(keys, sentence_ids)
    key = key_provenance(key_file.path, key_file.sha256, scored, folders)
    return key.meeting(equals_run=any(_chose(run, keys) for run in runs))


def _chose(run: Run, keys: Mapping[str, CaseKey]) -> bool:
    """Whether the labels say throughout what a run has chosen."""
    for case_id, key in keys.items():
        record = run.get_record(case_id)
        chosen = frozenset(record.evidence) if record else frozenset()
        if key.labels and chosen & key.labels.keys() != key.essential:
            return False
    return True
