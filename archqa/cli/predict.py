"""`archqa predict CASES`: answer every case of a file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from archqa import tasks
from archqa.cli.confirmation import confirm_writes
from archqa.cli.console import (
    configure_logging,
    console,
    print_json,
    print_line,
    print_notice,
    print_problem,
)
from archqa.cli.cost_estimate import confirm_cost, print_cost_estimate
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BackendOption,
    BaseUrlOption,
    ConfigOption,
    DryRunOption,
    JobsOption,
    LimitOption,
    MaxCostOption,
    ModelOption,
    PipelineOption,
    RecordOption,
    VerboseOption,
)
from archqa.cli.progress import Progress, result_table, stage_table
from archqa.cli.settings import command_settings, print_embedded_notice
from archqa.runs.case_selection import Selection, Shard
from archqa.runs.cost_estimate import estimate_cost
from archqa.runs.destinations import Announcer
from archqa.runs.model_server import resolve_model
from archqa.runs.models import check_server_asked_for, model_agents
from archqa.runs.plan import choose_pipeline
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run
from archqa.runs.settings_check import check_settings_used
from archqa.runs.stage_usage import stage_usage
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline


def command(
    cases: Annotated[
        str,
        typer.Argument(
            help="Cases (ArchEHR-QA XML, JSON or JSON Lines), - for standard input, or mini."
        ),
    ],
    task: Annotated[
        str | None, typer.Option(help="The task, where its content does not tell.")
    ] = None,
    record: RecordOption = None,
    pipeline: PipelineOption = None,
    backend: BackendOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="The run folder itself; default: a new one in runs/."),
    ] = None,
    jobs: JobsOption = None,
    limit: LimitOption = None,
    case: Annotated[list[str] | None, typer.Option(help="Only this case; repeatable.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that stopped.")] = False,
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
    max_cost: MaxCostOption = None,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")] = False,
    assign: AssignmentsOption = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The key with the answers that subtask 4 links; only their text is read."
        ),
    ] = None,
    functions: Annotated[
        Path | None,
        typer.Option(help="MedAgentBench's own function file (funcs_v1.json), for its baseline."),
    ] = None,
    operating_point: Annotated[
        str | None, typer.Option(help="What the embedded engine favours: f1, precision or recall.")
    ] = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object about the run.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Errors and the run folder only.")
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Ask before each write to a record (MedAgentBench)."),
    ] = False,
    verbose: VerboseOption = False,
) -> None:
    """Answer every case of a file, each claim with its evidence.

    Without --model or --base-url, the engine inside archqa answers, on this machine alone; a key in
    the environment sends nothing. Before the first request the server that gets record text is named.

    Examples:
      archqa predict mini
      archqa predict data/dev.json --out runs/dev
      archqa predict data/dev.json --model gpt-4.1 --jobs 16
      archqa predict dev.xml --base-url http://127.0.0.1:8000/v1 --set labels=multiclass
      archqa predict tasks.json --record record.db --model gpt-4.1 --pipeline typed
    """
    configure_logging(verbose=verbose, quiet=quiet)
    options = {
        "pipeline": pipeline,
        "backend": backend,
        "model": model,
        "base_url": base_url,
        "allow_plain_http": allow_plain_http,
        "jobs": jobs,
        "max_cost": max_cost,
        "operating_point": operating_point,
        "record": record,
        "answer_key": key,
        "functions": functions,
        "runner": runner,
        "ray_address": ray_address,
    }
    settings = command_settings(config, options, assign)
    file = tasks.load_cases_to_answer(cases, task)
    file = tasks.with_clinician_answers(file, settings.answer_key)
    selection = _selection(case, limit, shard)
    chosen_pipeline = choose_pipeline(settings, file.task)
    check_settings_used(settings, chosen_pipeline)
    inputs = chosen_pipeline.inputs(settings.for_pipeline(chosen_pipeline))
    if not quiet:
        _print_notices(chosen_pipeline, settings, (*file.remarks, *inputs.remarks))
    if dry_run:
        estimate = estimate_cost(selection.of(file), chosen_pipeline, settings)
        print_cost_estimate(estimate, as_json=as_json, max_cost=settings.limits.max_cost)
        return
    check_server_asked_for(settings, chosen_pipeline)
    if chosen_pipeline.backend == "model" and model_agents(settings, chosen_pipeline):
        settings = resolve_model(settings)
        if not (yes or quiet or as_json):
            sampled = estimate_cost(selection.of(file), chosen_pipeline, settings, sample_size=8)
            confirm_cost(sampled, settings.limits.max_cost)
    with Progress(quiet=quiet or as_json or confirm) as progress:
        run = predict(
            file,
            out=out_dir,
            resume=resume,
            selection=selection,
            settings=settings,
            on_start=progress.on_start,
            on_case=progress.on_case,
            confirm=confirm_writes() if confirm else None,
            announce=Announcer(print_problem, quiet=quiet),
        )
    _print_result(run, as_json=as_json, quiet=quiet)
    if run.count(CaseStatus.FAILED):
        raise typer.Exit(1)


def _selection(case_ids: list[str] | None, limit: int | None, shard: str | None) -> Selection:
    part = Shard.parse(shard) if shard else None
    return Selection(tuple(case_ids or ()), limit, part)


def _print_notices(pipeline: Pipeline, settings: Settings, remarks: Iterable[str]) -> None:
    """Say who answers where it is not a model, and what to know about the cases and inputs."""
    is_embedded = settings.backend in (None, "embedded") and pipeline.backend == "embedded"
    if is_embedded and not model_agents(settings, pipeline):
        print_embedded_notice(settings)
    if pipeline.backend == "script":
        print_notice(f"{pipeline.name} calls no model: its score is not a model's score.")
    for remark in remarks:
        print_notice(remark)


def _print_result(run: Run, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(run.summary())
        return
    if not quiet:
        console.print(result_table(run))
        stages = stage_usage(run)
        if stages:
            console.print(stage_table(stages))
    print_line(run.path)
