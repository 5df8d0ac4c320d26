"""`archqa ablate CASES`: the paper's tables 1 and 2, row by row, on any cases and any model."""

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import (
    configure_logging,
    console,
    format_dollars,
    number_table,
    print_json,
    print_problem,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BaseUrlOption,
    ConfigOption,
    DryRunOption,
    JobsOption,
    JsonOption,
    KeyOption,
    LimitOption,
    MaxCostOption,
    ModelOption,
    PipelineOption,
    QuietOption,
    command_settings,
)
from archqa.cli.progress import Progress, print_cost_estimate
from archqa.evaluation.ablation import COLUMNS, ablate, estimate_ablation
from archqa.runs.destinations import Announcer


def command(
    cases: Annotated[str, typer.Argument(help="A case file, or mini.")],
    key: KeyOption = None,
    pipeline: PipelineOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The folder for one run folder a row; default: in runs/."
        ),
    ] = None,
    jobs: JobsOption = None,
    limit: LimitOption = None,
    max_cost: MaxCostOption = None,
    dry_run: DryRunOption = False,
    assign: AssignmentsOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run the paper's ablations: labels x experts x context (Table 1), and the two answer
    strategies (Table 2).

    A second call with the same --out goes on where the first stopped. Replies that rows share are
    paid once. --max-cost limits all rows together; --dry-run estimates all of them and runs none.

    Examples:
      archqa ablate data/dev.json --model gpt-4.1 --dry-run
      archqa ablate data/dev.json --model gpt-4.1 --out runs/ablation
    """
    configure_logging(verbose=False, quiet=quiet)
    settings = command_settings(
        config,
        assign,
        pipeline=pipeline,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
        jobs=jobs,
        max_cost=max_cost,
    )
    if dry_run:
        estimate = estimate_ablation(cases, settings, limit)
        print_cost_estimate(
            estimate, as_json=as_json, max_cost=settings.limits.max_cost
        )
        return
    with Progress(quiet=quiet or as_json) as progress:
        rows = ablate(
            cases,
            settings,
            key=key,
            out=out_dir,
            limit=limit,
            on_start=progress.on_start,
            on_case=progress.on_case,
            announce=Announcer(print_problem, quiet=quiet),
        )
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    for number, metrics in COLUMNS.items():
        table = number_table(
            f"Table {number} of the paper",
            "method",
            *metrics,
            "calls a case",
            "tokens a case",
            "calls",
            "cost",
        )
        for row in rows:
            if row.table != number:
                continue
            scores = []
            for metric in metrics:
                scores.append(
                    f"{row.scores[metric]:.1f}" if metric in row.scores else "missing"
                )
            cost = format_dollars(row.cost_usd) if row.calls else ""
            per_case = (f"{row.calls_per_case:.1f}", f"{row.tokens_per_case:,.0f}")
            table.add_row(row.name, *scores, *per_case, str(row.calls), cost)
        console.print(table)
