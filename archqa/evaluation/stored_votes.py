"""The votes a run kept: what can be weighed anew, or decided anew, without asking anybody."""

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
        if record is not None and record.status is CaseStatus.ANSWERED and record.judgements:
            yield VotedRecord(case, record, pool_votes(record.judgements, record.experts))


def labelled_cases(run: Run, keys: Mapping[str, CaseKey]) -> list[VotedCase]:
    """The voted cases that the key has, ready for fitting. Raises `CallerError` if there is none."""
    found = [
        VotedCase(each.case.sentence_ids, each.votes, keys[each.case.id].essential)
        for each in iter_voted_records(run)
        if each.case.id in keys and keys[each.case.id].labels
    ]
    if not found:
        raise CallerError(
            f"No case of {run.path} has both votes and labels.\nIs this the key of its cases?"
        )
    return found
