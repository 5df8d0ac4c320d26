"""Shows what a run will cost, and asks before it is spent."""

import sys

import typer
from rich.table import Table

from archqa.cli.console import console, err_console, print_json
from archqa.cli.progress import format_dollars, usage_table
from archqa.errors import CallerError
from archqa.runs.cost_estimate import CostEstimate


def print_cost_estimate(estimate: CostEstimate, *, as_json: bool) -> None:
    """Print the whole estimate on stdout."""
    if as_json:
        print_json(estimate.as_json())
    else:
        console.print(_table(estimate))


def confirm_cost(estimate: CostEstimate) -> None:
    """Print the estimate on stderr and, at a terminal, ask whether to go on.

    Raises `CallerError` if the answer is no.
    """
    err_console.print(_table(estimate))
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if at_terminal and not _is_confirmed():
        raise CallerError(
            "No model was called and nothing was spent.\n--yes goes on without the question."
        )


def _is_confirmed() -> bool:
    """Ask whether to go on. Raises `KeyboardInterrupt` for Ctrl-C and the end of the input."""
    try:
        return typer.confirm("Go on?", default=True, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _table(estimate: CostEstimate) -> Table:
    title = f"Estimate for {estimate.cases} cases"
    if estimate.sampled_cases != estimate.cases:
        title += f", from a sample of {estimate.sampled_cases}"
    if estimate.incomplete_cases:
        title += (
            f"\nAT LEAST: {estimate.incomplete_cases} of {estimate.sampled_cases} cases could be "
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
        table.add_row(
            row.agent,
            row.model,
            f"{row.calls:,}",
            f"{row.cached_calls:,}",
            f"{row.prompt_tokens:,}",
            f"{row.shared_tokens:,}",
            f"{row.completion_tokens:,}",
            format_dollars(row.cost_usd),
        )
    totals = estimate.as_json()
    table.add_row(
        "all",
        "",
        f"{totals['calls']:,}",
        f"{totals['cached_calls']:,}",
        f"{totals['prompt_tokens']:,}",
        f"{totals['shared_prompt_tokens']:,}",
        f"{totals['completion_tokens']:,}",
        format_dollars(estimate.cost_usd),
        style="bold",
    )
    return table
