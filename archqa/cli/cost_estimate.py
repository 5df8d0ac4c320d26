"""What a run will cost, said before it is spent."""

import sys

import typer
from rich.table import Table

from archqa.cli.console import console, err_console, print_json
from archqa.cli.progress import format_dollars
from archqa.errors import CallerError
from archqa.runs.cost_estimate import CostEstimate


def print_cost_estimate(foresight: CostEstimate, *, as_json: bool) -> None:
    """The whole estimate, on stdout."""
    if as_json:
        print_json(foresight.as_json())
    else:
        console.print(_table(foresight))


def confirm_cost(foresight: CostEstimate) -> None:
    """The estimate on stderr and, where somebody is there to answer, a question. Raises `CallerError` on a no."""
    err_console.print(_table(foresight))
    if (
        sys.stdin.isatty()
        and sys.stderr.isatty()
        and not typer.confirm("Go on?", default=True, err=True)
    ):
        raise CallerError(
            "Nothing was asked and nothing spent.\n--yes goes on without the question."
        )


def _table(foresight: CostEstimate) -> Table:
    from_sample = (
        ""
        if foresight.sampled_cases == foresight.cases
        else f", estimated from {foresight.sampled_cases}"
    )
    table = Table(title=f"Estimate for {foresight.cases} cases{from_sample}", title_justify="left")
    table.add_column("agent", no_wrap=True)
    table.add_column("model", overflow="fold")
    for name in ("calls", "from cache", "prompt tokens", "of these shared", "reply tokens", "cost"):
        table.add_column(name, justify="right")
    for row in foresight.rows:
        counts = (
            row.calls,
            row.cached_calls,
            row.prompt_tokens,
            row.shared_tokens,
            row.completion_tokens,
        )
        table.add_row(
            row.agent, row.model, *(f"{count:,}" for count in counts), format_dollars(row.cost_usd)
        )
    total = foresight.as_json()
    sums = (
        total[name]
        for name in (
            "calls",
            "cached_calls",
            "prompt_tokens",
            "shared_prompt_tokens",
            "completion_tokens",
        )
    )
    table.add_row(
        "all",
        "",
        *(f"{count:,}" for count in sums),
        format_dollars(foresight.cost_usd),
        style="bold",
    )
    return table
