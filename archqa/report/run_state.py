"""How a run stands, and what is wrong with it: what its page says first."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa.report.case_rows import NOT_REACHED, CaseRow
from archqa.report.page import shorten
from archqa.report.record_summaries import RecordSummary
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
            return f"finished: {cases_in_words(self.total)}"
        return f"{self.word}: {self.ended} of {cases_in_words(self.total)}"

    @property
    def advice(self) -> str:
        """How to go on with a run that does not go on by itself; empty for others."""
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
    summaries: Mapping[str, RecordSummary],
    *,
    text: bool = True,
) -> RunState:
    """Return how a run stands. Without `text`, remarks on cases are counted, not quoted."""
    remarks = _case_remarks(summaries.values())
    shown = remarks[:_MAX_REMARKS] if text else ()
    return RunState(
        word=_word(folder, manifest),
        ended=sum(row.status != NOT_REACHED for row in rows),
        total=len(rows),
        failed=_with_status(rows, CaseStatus.FAILED),
        unanswerable=_with_status(rows, CaseStatus.UNANSWERABLE),
        remarks=manifest.remarks,
        case_remarks=tuple(shown),
        omitted_remarks=len(remarks) - len(shown),
    )


def cases_in_words(count: int) -> str:
    """Return "1 case", "6 cases"."""
    return "1 case" if count == 1 else f"{count:,} cases".replace(",", "\u202f")


def scored_cases(scores: Mapping[str, Any] | None) -> str:
    """Return over how many cases scores are, as in "over 6 of 48 cases"; empty if not known."""
    content = scores or {}
    cases, cases_in_key = content.get("cases"), content.get("cases_in_key")
    if not isinstance(cases, int) or not cases:
        return ""
    if isinstance(cases_in_key, int) and cases < cases_in_key:
        return f"over {cases:,} of {cases_in_words(cases_in_key)}".replace(",", "\u202f")
    return f"over {cases_in_words(cases)}"


def run_word(folder: Path, manifest: RunManifest) -> str:
    """Return running, finished, stopped or interrupted: a killed process still says "running"."""
    return _word(folder, manifest)


def _word(folder: Path, manifest: RunManifest) -> str:
    if manifest.status is not RunStatus.RUNNING:
        return manifest.status.value
    lock = folder / LOCK_NAME
    # A process on a file system without locks leaves no file.
    if lock.is_file() and not is_locked(lock):
        return "interrupted"
    return "running"


def _with_status(rows: Iterable[CaseRow], status: CaseStatus) -> tuple[CaseRow, ...]:
    return tuple(row for row in rows if row.status == status.value)


def _case_remarks(summaries: Iterable[RecordSummary]) -> list[Remark]:
    counts: Counter[str] = Counter()
    for summary in summaries:
        counts.update(set(summary.remarks))
    return [
        Remark(shorten(text, _MAX_REMARK_LENGTH), count) for text, count in counts.most_common()
    ]
