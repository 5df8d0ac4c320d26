"""`archqa batch submit|status|fetch`: a run by the Batch API, at half price and within a day."""

from pathlib import Path
from typing import Annotated, Any

import typer

from archqa.cli.console import console, print_line, print_notice
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    ConfigOption,
    LimitOption,
    ModelOption,
    command_settings,
)
from archqa.errors import CallerError
from archqa.runs.batch import BatchProgress, BatchRun, check_server, open_batch, statuses, upload
from archqa.runs.batch import fetch as fetch_batches
from archqa.runs.destinations import Announcer
from archqa.runs.event_loop import run_sync
from archqa.runs.folder import RunFolder, run_lock
from archqa.runs.model_server import check_model_server, check_server_asked_for
from archqa.runs.plan import Selection, plan_run
from archqa.settings import Settings

app = typer.Typer(
    help="Runs by the Batch API: half the price, up to a day a stage.", no_args_is_help=True
)

BatchRunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder that `archqa batch submit` made.")
]


BatchServerOption = Annotated[
    str | None, typer.Option("--base-url", help="The server that the run was submitted to.")
]


@app.callback()
def _group() -> None:
    """Runs by the Batch API: half the price, up to a day a stage."""


@app.command("submit")
def submit(
    target: Annotated[
        str,
        typer.Argument(metavar="CASES_OR_RUN", help="A case file to start, or a run to continue."),
    ],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The run folder of a new run.")
    ] = None,
    model: ModelOption = None,
    base_url: Annotated[str | None, typer.Option(help="A server with the Batch API.")] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    limit: LimitOption = None,
    assign: AssignmentsOption = None,
    config: ConfigOption = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Write the file, but submit nothing.")
    ] = False,
) -> None:
    """Write the requests that can be sent now to a file and submit it; repeat after each `fetch`.

    Stage by stage: context; screening and recruiting; specialists; decision. Requests that repair
    a rejected reply go into the next file.

    Examples:
      archqa batch submit dev.xml --model gpt-4.1 --out runs/dev
      archqa batch submit runs/dev
    """
    options: dict[str, Any] = {"pipeline": "dmis", "model": model, "base_url": base_url}
    options["allow_plain_http"] = allow_plain_http
    settings = command_settings(config, options | _model_of(target, model), assign)
    run = _open_or_create(target, out_dir, limit, settings, offline=offline)
    with run_lock(run.folder.path):
        run.folder.mend()
        _print_progress(run.advance())
        _write_and_submit(run, settings, offline=offline)
    print_line(run.folder.path)


def _write_and_submit(run: BatchRun, settings: Settings, *, offline: bool) -> None:
    for batch_round in run.write_rounds():
        path = run.input_path(batch_round)
        console.print(f"{path}: {len(batch_round.digests)} requests")
    if not offline and any(batch_round.status == "written" for batch_round in run.rounds):
        check_server(run, settings)
        for batch_round in run_sync(upload(run, settings, Announcer(print_notice))):
            submitted = f"round {batch_round.number} is submitted as {batch_round.batch_id}"
            console.print(submitted)


@app.command("status")
def status(
    run: BatchRunArgument,
    base_url: BatchServerOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
) -> None:
    """Ask the server for the status of the submitted files.

    Example:
      archqa batch status runs/dev
    """
    settings = _settings_of_run(run, base_url, config, allow_plain_http)
    batch_run = open_batch(run, settings)
    server_statuses: dict[int, str] = {}
    if any(batch_round.status == "submitted" for batch_round in batch_run.rounds):
        check_server(batch_run, settings)
        server_statuses = run_sync(statuses(batch_run, settings))
    for batch_round in batch_run.rounds:
        round_status = server_statuses.get(batch_round.number, batch_round.status)
        size = f"{len(batch_round.digests)} requests"
        console.print(f"round {batch_round.number}: {size}, {round_status}")


@app.command("fetch")
def fetch(
    run: BatchRunArgument,
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", help="An output file downloaded by other means; repeatable."),
    ] = None,
    base_url: BatchServerOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
) -> None:
    """Read the replies that have arrived and continue as far as they allow.

    Examples:
      archqa batch fetch runs/dev
      archqa batch fetch runs/dev --from output.jsonl
    """
    settings = _settings_of_run(run, base_url, config, allow_plain_http)
    batch_run = open_batch(run, settings)
    if not batch_run.rounds:
        raise CallerError(
            f"{run} has no batch.\nBegin one with: archqa batch submit CASES --out RUN"
        )
    with run_lock(batch_run.folder.path):
        batch_run.folder.mend()
        if files:
            reply_count = sum(batch_run.take(file) for file in files)
        else:
            check_server(batch_run, settings)
            reply_count = run_sync(fetch_batches(batch_run, settings))
        print_notice(f"{reply_count} replies came")
        _print_progress(batch_run.advance())
    print_line(batch_run.folder.path)


def _open_or_create(
    target: str, out_dir: Path | None, limit: int | None, settings: Settings, *, offline: bool
) -> BatchRun:
    """Open `target` if it is a run folder; otherwise create a run of its cases."""
    if _is_run(target):
        return open_batch(Path(target), settings)
    plan = plan_run(target, None, Selection(limit=limit), settings)
    if not offline:
        check_server_asked_for(settings, plan.pipeline)
        check_model_server(settings, settings.base_url)
    for remark in plan.manifest.remarks:
        print_notice(remark)
    return BatchRun.create(plan, out_dir)


def _is_run(target: str) -> bool:
    return Path(target, "run.json").is_file()


def _settings_of_run(
    run: Path, base_url: str | None, config: Path | None, allow_plain_http: bool | None
) -> Settings:
    options = {"base_url": base_url, "allow_plain_http": allow_plain_http}
    return command_settings(config, options | _model_of(str(run), None))


def _model_of(target: str, model: str | None) -> dict[str, Any]:
    """Return the model of a run that goes on: whoever submitted it asked for a model server."""
    if model is not None or not _is_run(target):
        return {"model": model}
    return {"model": RunFolder.open(Path(target)).manifest().settings.get("model")}


def _print_progress(progress: BatchProgress) -> None:
    cases = f"{progress.ended} of {progress.cases} cases have ended"
    console.print(f"{cases}; {progress.pending_requests} requests wait")
    if progress.pending_requests:
        print_notice(
            "`archqa batch submit RUN` submits them, unless they are submitted already; "
            "`archqa batch status RUN` shows it."
        )
