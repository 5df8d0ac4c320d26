"""`archqa batch submit|status|fetch`: a run at half price, for those who can wait a day."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from archqa.cli.console import console, print_notice
from archqa.errors import CallerError
from archqa.runs.batch.batch_run import BatchProgress, BatchRun, open_batch
from archqa.runs.batch.server import fetch as fetch_batches
from archqa.runs.batch.server import statuses, upload
from archqa.runs.case_selection import Selection
from archqa.runs.plan import plan_run
from archqa.settings import load_settings

app = typer.Typer(
    help="Runs by the Batch API: half the price, up to a day a stage.", no_args_is_help=True
)

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder that `archqa batch submit` made.")
]


@app.callback()
def _group() -> None:
    """Runs by the Batch API: half the price, up to a day a stage."""


@app.command("submit")
def submit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CASES_OR_RUN", help="A case file to begin, or a run to go on with."
        ),
    ],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The run folder of a new run.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model for every agent.")] = None,
    base_url: Annotated[str | None, typer.Option(help="A server with the Batch API.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N cases.")] = None,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Write the file, hand nothing in.")
    ] = False,
) -> None:
    """Write the requests that can be asked now into a file and hand it in; again after each `fetch`.

    Stage by stage: context; screening and recruiting; specialists; decision. Repairs go into the next file.

    Examples:
      archqa batch submit dev.xml --model gpt-4.1 --out runs/dev
      archqa batch submit runs/dev
    """
    typed: dict[str, Any] = {"pipeline": "dmis", "model": model, "base_url": base_url}
    settings = load_settings(config, typed, assign or ())
    begun = Path(target, "run.json").is_file()
    if begun:
        run = open_batch(Path(target), settings)
    else:
        run = BatchRun.create(plan_run(target, None, Selection(limit=limit), settings), out_dir)
    _tell(run.advance())
    written = run.write_rounds()
    for each in written:
        console.print(f"{run.input_path(each)}: {len(each.digests)} requests", markup=False)
    if not offline and any(each.status == "written" for each in run.rounds):
        for each in asyncio.run(upload(run, settings)):
            console.print(f"round {each.number} is submitted as {each.batch_id}", markup=False)
    print(run.folder.path)


@app.command("status")
def status(
    run: Run, config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None
) -> None:
    """Ask the server how the files stand that are handed in.

    Example:
      archqa batch status runs/dev
    """
    settings = load_settings(config)
    opened = open_batch(run, settings)
    asked = (
        asyncio.run(statuses(opened, settings))
        if any(each.status == "submitted" for each in opened.rounds)
        else {}
    )
    for each in opened.rounds:
        console.print(
            f"round {each.number}: {len(each.digests)} requests, {asked.get(each.number, each.status)}",
            markup=False,
        )


@app.command("fetch")
def fetch(
    run: Run,
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", help="An output file got by other means; repeatable."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
) -> None:
    """Take in the replies that have come and go as far as they allow.

    Examples:
      archqa batch fetch runs/dev
      archqa batch fetch runs/dev --from output.jsonl
    """
    settings = load_settings(config)
    opened = open_batch(run, settings)
    if not opened.rounds:
        raise CallerError(
            f"{run} has no batch.\nBegin one with: archqa batch submit CASES --out RUN"
        )
    taken = (
        sum(opened.take(file) for file in files)
        if files
        else asyncio.run(fetch_batches(opened, settings))
    )
    print_notice(f"{taken} replies came")
    _tell(opened.advance())
    print(opened.folder.path)


def _tell(progress: BatchProgress) -> None:
    console.print(
        f"{progress.ended} of {progress.cases} cases have ended; {progress.pending_requests} requests wait"
    )
    if progress.pending_requests:
        print_notice(
            "`archqa batch submit RUN` hands them in, unless they are under way; `archqa batch status RUN` tells."
        )
