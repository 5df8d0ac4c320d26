"""Reads the votes stored with a run, for fitting a combiner or selecting evidence again."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.errors import CallerError
from archqa.panel.calibration import VotedCase
from archqa.panel.combiner import Votes
from archqa.panel.decision import pool_votes
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.runs.run import Run


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


def labelled_cases(run: Run, keys: Mapping[str, CaseKey]) -> list[VotedCase]:
    """The voted cases that the key labels, ready for fitting. Raises `CallerError` if there is none."""
    cases = []
    for case, _, votes in iter_voted_records(run):
        key = keys.get(case.id)
        if key is not None and key.labels:
            cases.append(VotedCase(case.sentence_ids, votes, key.essential))
    if not cases:
        raise CallerError(
            f"No case of {run.path} has both votes and labels.\nIs this the key of its cases?"
        )
    return cases
