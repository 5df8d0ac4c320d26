"""`archqa predict CASES`: answer every case of a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from archqa import tasks
from archqa.cli.confirmation import confirm_writes
from archqa.cli.console import configure_logging, console, print_json, print_notice
from archqa.cli.cost_estimate import confirm_cost, print_cost_estimate
from archqa.cli.progress import Progress, result_table, stage_table
from archqa.runs.case_selection import Selection, Shard
from archqa.runs.cost_estimate import estimate_cost
from archqa.runs.model_server import resolve_model
from archqa.runs.plan import choose_pipeline
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run
from archqa.runs.settings_check import check_settings_used
from archqa.runs.stage_usage import stage_usage
from archqa.settings import load_settings
from archqa.tasks.pipelines import Pipeline

Cases = Annotated[
    str,
    typer.Argument(
        help="Cases (ArchEHR-QA XML, JSON or JSON Lines), - for standard input, or mini."
    ),
]


def command(
    cases: Cases,
    task: Annotated[
        str | None, typer.Option(help="The task, where its content does not tell.")
    ] = None,
    record: Annotated[
        str | None, typer.Option(help="A FHIR store or server (FHIR benchmarks).")
    ] = None,
    pipeline: Annotated[str | None, typer.Option(help="See `archqa list pipelines`.")] = None,
    model: Annotated[str | None, typer.Option(help="Model for every agent, e.g. gpt-4.1.")] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server.")] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder itself; default: a new one in runs/."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Requests in flight at once.  [default: 8]")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N cases.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; repeatable.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that stopped.")
    ] = False,
    shard: Annotated[
        str | None, typer.Option(metavar="K/N", help="Only part K of N of the cases.")
    ] = None,
    runner: Annotated[
        str | None, typer.Option(help="local, or ray: a cluster.  [default: local]")
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help="The cluster's head, or auto; default: a new one here."),
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Stop when this much is spent.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Render every prompt, call nobody.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")] = False,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="Holds the answers that subtask 4 links; only their words are read."),
    ] = None,
    functions: Annotated[
        Path | None,
        typer.Option(help="MedAgentBench's own function file (funcs_v1.json), for its baseline."),
    ] = None,
    operating_point: Annotated[str | None, typer.Option(help="f1, precision or recall.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object about the run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Ask before anything is written to a record (MedAgentBench)."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")] = False,
) -> None:
    """Answer every case of a file, each claim with its evidence.

    Without a model or a key the engine inside archqa answers, on this machine alone.

    Examples:
      archqa predict mini
      archqa predict data/dev.json --out runs/dev
      archqa predict data/dev.json --model gpt-4.1 --jobs 16
      archqa predict dev.xml --base-url http://127.0.0.1:8000/v1 --set labels=multiclass --set experts=off
      archqa predict tasks.json --record record.db --model gpt-4.1 --pipeline typed
    """
    configure_logging(verbose=verbose)
    typed: dict[str, Any] = {
        "pipeline": pipeline,
        "model": model,
        "base_url": base_url,
        "jobs": jobs,
        "max_cost": max_cost,
        "operating_point": operating_point,
        "record": record,
        "answer_key": key,
        "functions": functions,
        "runner": runner,
        "ray_address": ray_address,
    }
    settings = load_settings(config, typed, assign or ())
    file = tasks.with_clinician_answers(tasks.load_cases(cases, task), settings.answer_key)
    performer = choose_pipeline(settings, file.task)
    check_settings_used(settings, performer)
    inputs = performer.inputs(settings.for_pipeline(performer))
    if performer.mind == "model" and not dry_run:
        settings = resolve_model(settings)
    if performer.mind != "model" and not quiet:
        print_notice(_who_answers(performer))
    if not quiet:
        for remark in inputs.remarks:
            print_notice(remark)
    selection = Selection(tuple(case or ()), limit, Shard.parse(shard) if shard else None)
    if dry_run:
        print_cost_estimate(estimate_cost(selection.of(file), performer, settings), as_json=as_json)
        return
    if performer.mind == "model" and not (yes or quiet or as_json):
        confirm_cost(estimate_cost(selection.of(file), performer, settings, sample_size=8))
    with Progress(quiet=quiet or as_json or confirm) as progress:
        run = predict(
            file,
            out=out_dir,
            resume=resume,
            selection=selection,
            settings=settings,
            on_start=progress.start,
            on_case=progress.case,
            confirm=confirm_writes() if confirm else None,
        )
    _tell(run, as_json=as_json, quiet=quiet)
    if run.count(CaseStatus.FAILED):
        raise typer.Exit(1)


def _who_answers(performer: Pipeline) -> str:
    if performer.mind == "script":
        return f"{performer.name} is a fixed policy: its score is no score of any model."
    return "the embedded engine answers (no model server, no network); --model or --base-url names another."


def _tell(run: Run, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(run.summary())
        return
    if not quiet:
        console.print(result_table(run))
        stages = stage_usage(run)
        if stages:
            console.print(stage_table(stages))
    print(run.path)
