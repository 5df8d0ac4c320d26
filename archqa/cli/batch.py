"""`archqa batch submit|status|fetch`: a run by the Batch API, at half price and within a day."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

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
from archqa.runs.batch import (
    BatchProgress,
    BatchRun,
    check_server,
    open_batch,
    statuses,
    upload,
)
from archqa.runs.batch import fetch as fetch_batches
from archqa.runs.destinations import Announcer
from archqa.runs.event_loop import run_sync
from archqa.runs.folder import RunFolder, run_lock
from archqa.runs.model_server import check_model_server, check_server_asked_for
from archqa.runs.plan import Selection, plan_run
from archqa.settings import Settings

app = typer.Typer(
    help="Runs by the Batch API: half the price, up to a day a stage.",
    no_args_is_help=True,
)

BatchRunArgument = Annotated[
    Path,
    Argument(metavar="RUN", help="A run folder that `archqa batch submit` made."),
]


BatchServerOption = Annotated[
    str | None,
    Option("--base-url", help="The server that the run was submitted to."),
]


@app.callback()
def _group() -> None:
    """Runs by the Batch API: half the price, up to a day a stage."""


@app.command("submit")
def submit(
    target: Annotated[
        str,
        Argument(
            metavar="CASES_OR_RUN", help="A case file to start, or a run to continue."
        ),
    ],
    out_dir: Annotated[
        Path | None, Option("--out", help="The run folder of a new run.")
    ] = None,
    model: ModelOption = None,
    base_url: Annotated[str | None, Option(help="A server with the Batch API.")] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    limit: LimitOption = None,
    assign: AssignmentsOption = None,
    config: ConfigOption = None,
    offline: Annotated[
        bool, Option("--offline", help="Write the file, but submit nothing.")
    ] = False,
) -> None:
    """Write the requests that can be sent now to a file and submit it; repeat after each `fetch`.

    Stage by stage: context; screening and recruiting; specialists; decision. Requests that repair
    a rejected reply go into the next file.

    Examples:
      archqa batch submit dev.xml --model gpt-4.1 --out runs/dev
      archqa batch submit runs/dev
    """
    settings = _settings(
        Path(target),
        config,
        assign,
        pipeline="dmis",
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
    )
    if _is_run(Path(target)):
        run = open_batch(Path(target), settings)
    else:
        plan = plan_run(target, None, Selection(limit=limit), settings)
        if not offline:
            check_server_asked_for(settings, plan.pipeline)
            check_model_server(settings, settings.base_url)
        for remark in plan.manifest.remarks:
            print_notice(remark)
        run = BatchRun.create(plan, out_dir)
    with run_lock(run.folder.path):
        run.folder.repair()
        _print_progress(run.advance())
        for batch_round in run.write_rounds():
            path = run.input_path(batch_round)
            console.print(f"{path}: {len(batch_round.digests)} requests")
        if not offline and any(
            batch_round.status == "written" for batch_round in run.rounds
        ):
            check_server(run, settings)
            for submitted in run_sync(upload(run, settings, Announcer(print_notice))):
                console.print(
                    f"round {submitted.number} is submitted as {submitted.batch_id}"
                )
    print_line(run.folder.path)


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
    settings = _settings(
        run, config, base_url=base_url, allow_plain_http=allow_plain_http
    )
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
        Option("--from", help="An output file downloaded by other means; repeatable."),
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
    settings = _settings(
        run, config, base_url=base_url, allow_plain_http=allow_plain_http
    )
    batch_run = open_batch(run, settings)
    if not batch_run.rounds:
        raise CallerError(
            f"{run} has no batch.\nBegin one with: archqa batch submit CASES --out RUN"
        )
    with run_lock(batch_run.folder.path):
        batch_run.folder.repair()
        if files:
            reply_count = sum(batch_run.take(file) for file in files)
        else:
            check_server(batch_run, settings)
            reply_count = run_sync(fetch_batches(batch_run, settings))
        print_notice(f"{reply_count} replies came")
        _print_progress(batch_run.advance())
    print_line(batch_run.folder.path)


def _settings(
    target: Path,
    config: Path | None,
    assignments: list[str] | None = None,
    **options: Any,
) -> Settings:
    """Return the settings of a command about cases or a run.

    A run that goes on has its own model: whoever submitted it asked for a model server.
    """
    if options.get("model") is None and _is_run(target):
        options["model"] = RunFolder.open(target).manifest().settings.get("model")
    return command_settings(config, assignments, **options)


def _is_run(target: Path) -> bool:
    return (target / "run.json").is_file()


def _print_progress(progress: BatchProgress) -> None:
    cases = f"{progress.ended} of {progress.cases} cases have ended"
    console.print(f"{cases}; {progress.pending_requests} requests wait")
    if progress.pending_requests:
        print_notice(
            "`archqa batch submit RUN` submits them, unless they are submitted already; "
            "`archqa batch status RUN` shows it."
        )
