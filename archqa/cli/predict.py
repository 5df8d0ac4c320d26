"""`archqa predict CASES`: answer every case of a file."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from archqa.cli.console import (
    configure_logging,
    console,
    err_console,
    print_json,
    print_line,
    print_notice,
    print_problem,
)
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
    RunJsonOption,
    VerboseOption,
    command_settings,
    print_embedded_notice,
)
from archqa.cli.progress import (
    Progress,
    confirm_cost,
    print_cost_estimate,
    result_table,
    stage_table,
)
from archqa.errors import BudgetExceeded, ServerUnavailable
from archqa.runs.cost_estimate import estimate_cost
from archqa.runs.destinations import Announcer
from archqa.runs.model_server import model_agents
from archqa.runs.plan import Plan, Selection, Shard, plan_run
from archqa.runs.predict import run_plan
from archqa.runs.record import CaseStatus
from archqa.runs.stage_usage import stage_usage


def command(
    cases: Annotated[
        str,
        Argument(
            help="Cases (ArchEHR-QA XML, JSON or JSON Lines), - for standard input, or mini."
        ),
    ],
    task: Annotated[
        str | None, Option(help="The task, where its content does not tell.")
    ] = None,
    record: RecordOption = None,
    pipeline: PipelineOption = None,
    backend: BackendOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    out_dir: Annotated[
        Path | None,
        Option("--out", help="The run folder itself; default: a new one in runs/."),
    ] = None,
    jobs: JobsOption = None,
    limit: LimitOption = None,
    case: Annotated[
        list[str] | None, Option(help="Only this case; repeatable.")
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue a run that stopped.")
    ] = False,
    shard: Annotated[
        str | None, Option(metavar="K/N", help="Only part K of N of the cases.")
    ] = None,
    runner: Annotated[
        str | None, Option(help="local, or ray: a cluster.  [default: local]")
    ] = None,
    ray_address: Annotated[
        str | None,
        Option(
            metavar="ADDR", help="The cluster's head, or auto; default: a new one here."
        ),
    ] = None,
    max_cost: MaxCostOption = None,
    dry_run: DryRunOption = False,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Do not ask before spending.")
    ] = False,
    assign: AssignmentsOption = None,
    key: Annotated[
        Path | None,
        Option(
            help="The key with the answers that subtask 4 links; only their text is read."
        ),
    ] = None,
    functions: Annotated[
        Path | None,
        Option(
            help="MedAgentBench's own function file (funcs_v1.json), for its baseline."
        ),
    ] = None,
    operating_point: Annotated[
        str | None,
        Option(help="What the embedded engine favours: f1, precision or recall."),
    ] = None,
    config: ConfigOption = None,
    as_json: RunJsonOption = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Errors and the run folder only.")
    ] = False,
    confirm: Annotated[
        bool,
        Option("--confirm", help="Ask before each write to a record (MedAgentBench)."),
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
    settings = command_settings(
        config,
        assign,
        pipeline=pipeline,
        backend=backend,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
        jobs=jobs,
        max_cost=max_cost,
        operating_point=operating_point,
        record=record,
        answer_key=key,
        functions=functions,
        runner=runner,
        ray_address=ray_address,
    )
    selection = Selection(
        tuple(case or ()), limit, Shard.parse(shard) if shard else None
    )
    plan = plan_run(cases, task, selection, settings)
    if not quiet:
        _print_notices(plan)
    if dry_run:
        estimate = estimate_cost(plan)
        print_cost_estimate(
            estimate, as_json=as_json, max_cost=settings.limits.max_cost
        )
        return
    plan = plan.with_served_model()
    if plan.asks_a_model and not (yes or quiet or as_json):
        confirm_cost(estimate_cost(plan, sample_size=8), settings.limits.max_cost)
    try:
        with Progress(quiet=quiet or as_json or confirm) as progress:
            run = run_plan(
                plan,
                out_dir,
                resume=resume,
                on_start=progress.on_start,
                on_case=progress.on_case,
                confirm=_confirm_writes() if confirm else None,
                announce=Announcer(print_problem, quiet=quiet),
            )
    except (ServerUnavailable, BudgetExceeded) as error:
        error.args = (f"{error}\n--resume goes on where this run stopped.",)
        raise
    if as_json:
        print_json(run.summary())
    else:
        if not quiet:
            console.print(result_table(run))
            stages = stage_usage(run)
            if stages:
                console.print(stage_table(stages))
        print_line(run.path)
    if run.count(CaseStatus.FAILED):
        raise typer.Exit(1)


def _print_notices(plan: Plan) -> None:
    """Say who answers where it is not a model, and what to know about the cases and inputs."""
    settings, pipeline = plan.settings, plan.pipeline
    is_embedded = (
        settings.backend in (None, "embedded") and pipeline.backend == "embedded"
    )
    if is_embedded and not model_agents(settings, pipeline):
        print_embedded_notice(settings)
    if pipeline.backend == "script":
        print_notice(
            f"{pipeline.name} calls no model: its score is not a model's score."
        )
    for remark in plan.manifest.remarks:
        print_notice(remark)


def _confirm_writes() -> Callable[[str, Mapping[str, Any]], bool]:
    """Return a function that asks on stderr about one write to a record at a time.

    Without a terminal, or without an answer, the write is refused.
    """
    one_question_at_a_time = threading.Lock()

    def ask(url: str, payload: Mapping[str, Any]) -> bool:
        with one_question_at_a_time:
            err_console.print(f"An agent wants to POST this to {url}:")
            err_console.print(json.dumps(payload, ensure_ascii=False, indent=2))
            try:
                return typer.confirm("Allow it?", default=False, err=True)
            except typer.Abort:
                return False

    return ask
