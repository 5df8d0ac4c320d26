"""What is seen of a run while it works, and the table at its end."""

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


class Progress:
    """A bar on stderr, and a line for each case that failed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._usage = Usage()
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[spent]}"),
            console=err_console,
            disable=quiet,
        )
        self._task = self._bar.add_task("starting", total=None, spent="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def start(self, manifest: RunManifest, done: int) -> None:
        """The run is laid out; `done` cases had ended before."""
        self._bar.update(
            self._task, description="cases", total=len(manifest.case_ids), completed=done
        )

    def case(self, record: CaseRecord) -> None:
        """One more case has ended."""
        self._usage += record.usage
        self._bar.update(self._task, advance=1, spent=format_usage(self._usage))
        if record.status is not CaseStatus.ANSWERED and not self._quiet:
            self._bar.console.print(
                f"case {record.id} {record.status.value}: {record.error}", markup=False
            )


def format_usage(usage: Usage) -> str:
    """Calls and dollars in a few words; nothing where no model was asked."""
    if not usage.calls:
        return ""
    return f"{usage.calls} calls, {format_dollars(usage.cost_usd)}"


def format_dollars(dollars: float | None) -> str:
    """Dollars as they are printed; an unknown cost is said to be unknown."""
    return "cost unknown" if dollars is None else f"${dollars:.4f}"


def result_table(run: Run) -> Table:
    """How the run ended, in one small table."""
    summary = run.summary()
    table = Table(
        title=f"{summary['task']} by {summary['pipeline']}", show_header=False, title_justify="left"
    )
    for name in ("answered", "failed", "unanswerable"):
        table.add_row(name, f"{summary[name]} of {summary['cases']}")
    if summary["calls"] or summary["cached_calls"]:
        table.add_row(
            "model calls", f"{summary['calls']} (and {summary['cached_calls']} from the cache)"
        )
        table.add_row(
            "tokens", f"{summary['prompt_tokens']} in, {summary['completion_tokens']} out"
        )
        table.add_row("cost", format_dollars(summary["cost_usd"]))
    remarks = sum(len(record.remarks) for record in run.records)
    if remarks:
        table.add_row(
            "remarks", f"{remarks} (stages that failed and were made good; see archqa show)"
        )
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    return table


def stage_table(stages: list[StageUsage]) -> Table:
    """What each stage cost."""
    table = Table(title="stages", title_justify="left")
    table.add_column("agent", no_wrap=True)
    table.add_column("model", overflow="fold")
    for name in (
        "calls",
        "from cache",
        "sent back",
        "tokens in",
        "of these cached",
        "tokens out",
        "cost",
        "p50",
        "p95",
    ):
        table.add_column(name, justify="right")
    for each in stages:
        used = each.usage
        tokens = (used.prompt_tokens, used.cached_prompt_tokens, used.completion_tokens)
        counts = (used.calls, used.cached_calls, each.rejected, *tokens)
        seconds = (
            "" if each.p50 is None else f"{each.p50:.2f} s",
            "" if each.p95 is None else f"{each.p95:.2f} s",
        )
        table.add_row(
            each.agent,
            each.model,
            *(f"{count:,}" for count in counts),
            format_dollars(used.cost_usd),
            *seconds,
        )
    return table
