"""`archqa ablate CASES`: the paper's tables 1 and 2, row by row, on any cases and any minds."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from archqa.cli.console import configure_logging, console, print_json
from archqa.cli.progress import Progress, format_dollars
from archqa.evaluation.ablation import COLUMNS, Row, ablate
from archqa.settings import load_settings


def command(
    cases: Annotated[str, typer.Argument(help="A case file, or mini.")],
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the file.")
    ] = None,
    pipeline: Annotated[str | None, typer.Option(help="See `archqa list pipelines`.")] = None,
    model: Annotated[str | None, typer.Option(help="Model for every agent.")] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server.")] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="Holds one run folder a row; default: in runs/."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Requests in flight at once.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N cases.")] = None,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run the paper's ablations: labels x experts x context (Table 1), and the two answer strategies (Table 2).

    A second call with the same --out goes on where the first stopped. Replies that rows share are paid once.

    Example:
      archqa ablate data/dev.json --model gpt-4.1 --out runs/ablation
    """
    configure_logging(verbose=False)
    typed: dict[str, Any] = {
        "pipeline": pipeline,
        "model": model,
        "base_url": base_url,
        "jobs": jobs,
    }
    settings = load_settings(config, typed, assign or ())
    with Progress(quiet=quiet or as_json) as progress:
        rows = ablate(
            cases,
            settings,
            key=key,
            out=out_dir,
            limit=limit,
            on_start=progress.start,
            on_case=progress.case,
        )
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    for table in (1, 2):
        console.print(_table(table, [row for row in rows if row.table == table]))


def _table(number: int, rows: list[Row]) -> Table:
    table = Table(title=f"Table {number} of the paper", title_justify="left")
    table.add_column("method")
    for column in COLUMNS[number]:
        table.add_column(column, justify="right")
    table.add_column("calls", justify="right")
    table.add_column("cost", justify="right")
    for row in rows:
        values = (row.scores.get(column) for column in COLUMNS[number])
        shown = ("missing" if value is None else f"{value:.1f}" for value in values)
        table.add_row(
            row.name, *shown, str(row.calls), format_dollars(row.cost_usd) if row.calls else ""
        )
    return table
