"""What a run shows: the estimate of its cost, its progress, and the tables at its end."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from archqa.cli.console import (
    PrintableConsole,
    console,
    count_calls,
    describe_calls,
    err_console,
    format_dollars,
    print_json,
)
from archqa.core.usage import Usage
from archqa.errors import CallerError
from archqa.runs.cost_estimate import Amount, AmountRange, CostEstimate
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest
from archqa.runs.run import Run
from archqa.runs.stage_usage import StageUsage


class Progress:
    """A bar on stderr, and a line for each case that was not answered."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._calls = count_calls()
        self._usage = Usage()
        """Of the cases that have ended: of a cluster, no more is known."""
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            _SpentColumn(self._spent),
            console=err_console,
            disable=quiet,
        )
        self._task = self._bar.add_task("starting", total=None)

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
            self._task,
            description="cases",
            total=len(manifest.case_ids),
            completed=done,
        )

    def on_case(self, record: CaseRecord) -> None:
        """Count a case that has ended."""
        self._usage += record.usage
        self._bar.update(self._task, advance=1)
        if record.status is CaseStatus.ANSWERED or self._quiet:
            return
        reason = record.error
        if record.error_summary:
            # Without the words of the question: stderr may end in a log.
            reason = f"{record.error_summary}; `archqa show` says more"
        self._bar.console.print(f"case {record.id} {record.status.value}: {reason}")

    def _spent(self) -> str:
        if self._usage.calls and not self._calls.usage.calls:
            return f"{self._usage.calls} calls, {format_dollars(self._usage.cost_usd)}"
        return describe_calls(self._calls)


class _SpentColumn(ProgressColumn):
    """What is spent, as of each time the bar is drawn."""

    def __init__(self, spent: Callable[[], str]) -> None:
        super().__init__()
        self._spent = spent

    def render(self, task: Task) -> Text:
        """The text of the moment."""
        return Text(self._spent())


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
        table.add_row("remarks", f"{remarks} (see archqa show)")
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


def print_cost_estimate(
    estimate: CostEstimate, *, as_json: bool, max_cost: float | None
) -> None:
    """Print the whole estimate on stdout."""
    if as_json:
        print_json(estimate.as_json())
    else:
        _print_estimate(console, estimate, max_cost)


def confirm_cost(estimate: CostEstimate, max_cost: float | None) -> None:
    """Print the estimate on stderr and, at a terminal, ask whether to go on.

    Raises `CallerError` if the answer is no, `KeyboardInterrupt` for Ctrl-C and the end of the input.
    """
    _print_estimate(err_console, estimate, max_cost)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    low, expected, high = estimate.amounts
    question = f"About {format_dollars(expected.cost_usd)}. Go on?"
    if expected.cost_usd is None:
        question = "The cost is unknown. Go on?"
    elif low.cost_usd != high.cost_usd:
        highest = format_dollars(high.cost_usd)
        question = f"About {format_dollars(expected.cost_usd)}, up to {highest}. Go on?"
    try:
        confirmed = typer.confirm(question, default=True, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not confirmed:
        raise CallerError(
            "No model was called and nothing was spent.\n--yes goes on without the question."
        )


def _print_estimate(
    to_console: PrintableConsole, estimate: CostEstimate, max_cost: float | None
) -> None:
    """Print the numbers, what they rest on, and whether they exceed the spending limit."""
    low, expected, high = estimate.amounts
    title = f"Estimate for {estimate.cases} cases"
    if estimate.variants > 1:
        title += f", each in {estimate.variants} variants"
    if estimate.sampled_cases != estimate.cases:
        title += f", from a sample of {estimate.sampled_cases}"
    if low != high:
        title += "; expected (low to high) where conversations are estimated"
    if estimate.incomplete_cases:
        rendered = estimate.sampled_cases * estimate.variants
        title += (
            f"\nAT LEAST: {estimate.incomplete_cases} of {rendered} cases could be "
            "followed only to a call whose reply is unknown"
        )
    table = usage_table(
        title,
        "calls",
        "from cache",
        "prompt tokens",
        "of these shared",
        "reply tokens",
        "cost",
    )
    for row in estimate.rows:
        table.add_row(row.agent, row.model, *_cells(row.amounts, row.cached_calls))
    table.add_row(
        "all", "", *_cells(estimate.amounts, estimate.cached_calls), style="bold"
    )
    to_console.print(table)
    for remark in estimate.remarks:
        to_console.print(remark)
    if max_cost is None or expected.cost_usd is None or high.cost_usd is None:
        return
    if expected.cost_usd > max_cost:
        to_console.print(
            f"The expected cost is above --max-cost (${max_cost:g}): the run will stop when that "
            "is spent, and can go on with a higher one."
        )
    elif high.cost_usd > max_cost:
        to_console.print(
            f"The expected cost is within --max-cost (${max_cost:g}), the highest is not: the run "
            "may stop when that is spent."
        )


def _cells(amounts: AmountRange, cached_calls: int) -> tuple[str, ...]:
    """The numbers of a row: each the expected one, followed by its range where it has one."""

    def cell(shown: Callable[[Amount], str]) -> str:
        low, expected, high = (shown(amount) for amount in amounts)
        return expected if low == high else f"{expected} ({low} to {high})"

    return (
        cell(lambda amount: f"{amount.calls:,}"),
        f"{cached_calls:,}",
        cell(lambda amount: f"{amount.prompt_tokens:,}"),
        cell(lambda amount: f"{amount.shared_tokens:,}"),
        cell(lambda amount: f"{amount.completion_tokens:,}"),
        cell(lambda amount: format_dollars(amount.cost_usd)),
    )
