"""The progress bar of a run, and the tables at its end."""

from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table

from archqa.cli.console import err_console
from archqa.core.usage import Usage
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest
from archqa.runs.run import Run
from archqa.runs.stage_usage import StageUsage

_QUOTING_ERRORS = frozenset({"NotUnderstood", "Unusable"})
"""Types of errors whose details may quote a question."""


class Progress:
    """A bar on stderr, and a line for each case that was not answered."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._usage = Usage()
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[spent]}", markup=False),
            console=err_console,
            disable=quiet,
        )
        self._task = self._bar.add_task("starting", total=None, spent="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def on_start(self, manifest: RunManifest, done: int) -> None:
        """Show how many cases the run has; `done` of them ended in an earlier session."""
        self._bar.update(
            self._task, description="cases", total=len(manifest.case_ids), completed=done
        )

    def on_case(self, record: CaseRecord) -> None:
        """Count a case that has ended."""
        self._usage += record.usage
        self._bar.update(self._task, advance=1, spent=format_usage(self._usage))
        if record.status is not CaseStatus.ANSWERED and not self._quiet:
            self._bar.console.print(f"case {record.id} {record.status.value}: {_reason(record)}")


def _reason(record: CaseRecord) -> str:
    """Why a case has no answer, without the words of its question: stderr may end in a log."""
    error_type, _, _ = record.error.partition(": ")
    if error_type in _QUOTING_ERRORS:
        return f"{error_type}; `archqa show` says why"
    return record.error


def format_usage(usage: Usage) -> str:
    """Return the number of calls and their cost; empty if no model was called."""
    if not usage.calls:
        return ""
    return f"{usage.calls} calls, {format_dollars(usage.cost_usd)}"


def format_dollars(dollars: float | None) -> str:
    """Return a cost with four decimals, or that it is unknown."""
    if dollars is None:
        return "cost unknown"
    return f"${dollars:.4f}"


def result_table(run: Run) -> Table:
    """Summarise a run: cases, calls, tokens, cost, remarks and seconds."""
    summary = run.summary()
    table = Table(
        title=f"{summary['task']} by {summary['pipeline']}",
        show_header=False,
        title_justify="left",
    )
    for status in ("answered", "failed", "unanswerable"):
        table.add_row(status, f"{summary[status]} of {summary['cases']}")
    if summary["calls"] or summary["cached_calls"]:
        calls = f"{summary['calls']} (and {summary['cached_calls']} from the cache)"
        table.add_row("model calls", calls)
        tokens = f"{summary['prompt_tokens']} in, {summary['completion_tokens']} out"
        table.add_row("tokens", tokens)
        table.add_row("cost", format_dollars(summary["cost_usd"]))
    remarks = sum(len(record.remarks) for record in run.records)
    if remarks:
        table.add_row("remarks", f"{remarks} (stages that failed and fell back; see archqa show)")
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    return table


def usage_table(title: str, *number_columns: str) -> Table:
    """Return an empty table of agents and models with columns of numbers."""
    table = Table(title=title, title_justify="left")
    table.add_column("agent", no_wrap=True)
    table.add_column("model", overflow="fold")
    for column in number_columns:
        table.add_column(column, justify="right")
    return table


def stage_table(stages: list[StageUsage]) -> Table:
    """Show calls, tokens, cost and latency of each stage of a run."""
    table = usage_table(
        "stages",
        "calls",
        "from cache",
        "sent back",
        "tokens in",
        "of these cached",
        "tokens out",
        "cost",
        "p50",
        "p95",
    )
    for stage in stages:
        usage = stage.usage
        table.add_row(
            stage.agent,
            stage.model,
            f"{usage.calls:,}",
            f"{usage.cached_calls:,}",
            f"{stage.rejected:,}",
            f"{usage.prompt_tokens:,}",
            f"{usage.cached_prompt_tokens:,}",
            f"{usage.completion_tokens:,}",
            format_dollars(usage.cost_usd),
            _format_seconds(stage.p50),
            _format_seconds(stage.p95),
        )
    return table


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s"
