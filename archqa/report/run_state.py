"""How a run stands, and what is wrong with it: what its page says first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from archqa.report.case_table import NOT_REACHED, CaseRow
from archqa.report.page import count_cases, shorten
from archqa.report.report_data import CaseSummary
from archqa.runs.folder import LOCK_NAME
from archqa.runs.record import CaseStatus, RunManifest, RunStatus
from archqa.safety.files import is_locked

_MAX_REMARKS = 8
_MAX_REMARK_LENGTH = 400
_MAX_NAMED_CASES = 12


class Remark(NamedTuple):
    """A remark on cases, and on how many of them it was made."""

    text: str
    cases: int


class RunState(NamedTuple):
    """How a run stands. `word` is running, finished, stopped or interrupted.

    `failed` and `unanswerable` hold the rows of these cases, `remarks` are on the run,
    `case_remarks` on its cases, the most frequent first; `omitted_remarks` counts further ones.
    """

    word: str
    ended: int
    total: int
    failed: tuple[CaseRow, ...]
    unanswerable: tuple[CaseRow, ...]
    remarks: tuple[str, ...]
    case_remarks: tuple[Remark, ...]
    omitted_remarks: int

    @property
    def is_running(self) -> bool:
        """Whether a process works on it, so that its cases grow."""
        return self.word == "running"

    @property
    def sentence(self) -> str:
        """How the run stands, as in "running: 6 of 48 cases"."""
        if self.word == "finished" and self.ended == self.total:
            return f"finished: {count_cases(self.total)}"
        return f"{self.word}: {self.ended} of {count_cases(self.total)}"

    @property
    def advice(self) -> str:
        """How to resume a run that does not go on by itself; empty for others."""
        if self.word in {"stopped", "interrupted"}:
            return "No process works on it. Go on with it by its command and --resume."
        return ""

    @property
    def named_failures(self) -> tuple[CaseRow, ...]:
        """The first failed cases, which the page names."""
        return self.failed[:_MAX_NAMED_CASES]


def run_state(
    folder: Path,
    manifest: RunManifest,
    rows: Sequence[CaseRow],
    summaries: Mapping[str, CaseSummary],
    *,
    text: bool,
) -> RunState:
    """Return how a run stands. Without `text`, remarks on cases are counted, not quoted."""
    counts: Counter[str] = Counter()
    for summary in summaries.values():
        counts.update(set(summary.remarks))
    case_remarks = []
    if text:
        for remark, cases in counts.most_common(_MAX_REMARKS):
            case_remarks.append(Remark(shorten(remark, _MAX_REMARK_LENGTH), cases))
    return RunState(
        word=run_word(folder, manifest),
        ended=sum(row.status != NOT_REACHED for row in rows),
        total=len(rows),
        failed=tuple(row for row in rows if row.status == CaseStatus.FAILED),
        unanswerable=tuple(
            row for row in rows if row.status == CaseStatus.UNANSWERABLE
        ),
        remarks=manifest.remarks,
        case_remarks=tuple(case_remarks),
        omitted_remarks=len(counts) - len(case_remarks),
    )


def run_word(folder: Path, manifest: RunManifest) -> str:
    """Return running, finished, stopped or interrupted: a killed process still says "running"."""
    if manifest.status is not RunStatus.RUNNING:
        return manifest.status.value
    lock = folder / LOCK_NAME
    # A process on a file system without locks leaves no file.
    if lock.is_file() and not is_locked(lock):
        return "interrupted"
    return "running"
