"""Shows what a run will cost, and asks before it is spent."""

import sys
from collections.abc import Callable, Iterator

import typer
from rich.table import Table

from archqa.cli.console import console, err_console, print_json
from archqa.cli.progress import format_dollars, usage_table
from archqa.errors import CallerError
from archqa.runs.agent_cost import Amount, AmountRange
from archqa.runs.cost_estimate import CostEstimate


def print_cost_estimate(
    estimate: CostEstimate, *, as_json: bool, max_cost: float | None = None
) -> None:
    """Print the whole estimate on stdout."""
    if as_json:
        print_json(estimate.as_json())
        return
    console.print(_table(estimate))
    for line in _lines(estimate, max_cost):
        console.print(line)


def confirm_cost(estimate: CostEstimate, max_cost: float | None = None) -> None:
    """Print the estimate on stderr and, at a terminal, ask whether to go on.

    Raises `CallerError` if the answer is no.
    """
    err_console.print(_table(estimate))
    for line in _lines(estimate, max_cost):
        err_console.print(line)
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if at_terminal and not _is_confirmed(estimate):
        raise CallerError(
            "No model was called and nothing was spent.\n--yes goes on without the question."
        )


def _is_confirmed(estimate: CostEstimate) -> bool:
    """Ask whether to go on. Raises `KeyboardInterrupt` for Ctrl-C and the end of the input."""
    try:
        return typer.confirm(_question(estimate), default=True, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _question(estimate: CostEstimate) -> str:
    low, expected, high = estimate.amounts
    if expected.cost_usd is None:
        return "The cost is unknown. Go on?"
    if low.cost_usd == high.cost_usd:
        return f"About {format_dollars(expected.cost_usd)}. Go on?"
    dollars = f"{format_dollars(expected.cost_usd)}, up to {format_dollars(high.cost_usd)}"
    return f"About {dollars}. Go on?"


def _lines(estimate: CostEstimate, max_cost: float | None) -> Iterator[str]:
    """What the numbers rest on, and whether they exceed the spending limit."""
    yield from estimate.remarks
    _, expected, high = estimate.amounts
    if max_cost is None or expected.cost_usd is None or high.cost_usd is None:
        return
    if expected.cost_usd > max_cost:
        yield (
            f"The expected cost is above --max-cost (${max_cost:g}): the run will stop when that "
            "is spent, and can go on with a higher one."
        )
    elif high.cost_usd > max_cost:
        yield (
            f"The expected cost is within --max-cost (${max_cost:g}), the highest is not: the run "
            "may stop when that is spent."
        )


def _table(estimate: CostEstimate) -> Table:
    table = usage_table(
        _title(estimate),
        "calls",
        "from cache",
        "prompt tokens",
        "of these shared",
        "reply tokens",
        "cost",
    )
    for row in estimate.rows:
        table.add_row(row.agent, row.model, *_cells(row.amounts, row.cached_calls))
    table.add_row("all", "", *_cells(estimate.amounts, estimate.cached_calls), style="bold")
    return table


def _title(estimate: CostEstimate) -> str:
    title = f"Estimate for {estimate.cases} cases"
    if estimate.variants > 1:
        title += f", each in {estimate.variants} variants"
    if estimate.sampled_cases != estimate.cases:
        title += f", from a sample of {estimate.sampled_cases}"
    low, _, high = estimate.amounts
    if low != high:
        title += "; expected (low to high) where conversations are estimated"
    if estimate.incomplete_cases:
        rendered = estimate.sampled_cases * estimate.variants
        title += (
            f"\nAT LEAST: {estimate.incomplete_cases} of {rendered} cases could be "
            "followed only to a call whose reply is unknown"
        )
    return title


def _cells(amounts: AmountRange, cached_calls: int) -> tuple[str, ...]:
    return (
        _range(amounts, lambda amount: f"{amount.calls:,}"),
        f"{cached_calls:,}",
        _range(amounts, lambda amount: f"{amount.prompt_tokens:,}"),
        _range(amounts, lambda amount: f"{amount.shared_tokens:,}"),
        _range(amounts, lambda amount: f"{amount.completion_tokens:,}"),
        _range(amounts, lambda amount: format_dollars(amount.cost_usd)),
    )


def _range(amounts: AmountRange, shown: Callable[[Amount], str]) -> str:
    """The expected number, followed by its range where it has one."""
    low, expected, high = (shown(amount) for amount in amounts)
    return expected if low == high else f"{expected} ({low} to {high})"
