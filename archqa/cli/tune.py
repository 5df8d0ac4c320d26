"""`archqa tune CASES`: compares versions of a prompt by cross-validation over cases."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from archqa.cli.console import (
    configure_logging,
    console,
    number_table,
    print_json,
    print_problem,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BaseUrlOption,
    ConfigOption,
    JobsOption,
    JsonOption,
    KeyOption,
    LimitOption,
    ModelOption,
    QuietOption,
    command_settings,
)
from archqa.cli.progress import Progress
from archqa.cli.score import print_key
from archqa.evaluation.prompt_tuning import search_prompts
from archqa.runs.destinations import Announcer


def command(
    cases: Annotated[str, Argument(help="A case file with a key, or mini.")],
    agent: Annotated[str, Option(help="The agent whose prompts are compared.")],
    prompts: Annotated[
        str, Option(metavar="NAMES", help="Versions, separated by commas.")
    ],
    key: KeyOption = None,
    pipeline: Annotated[str, Option(help="See `archqa list pipelines`.")] = "dmis",
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    out_dir: Annotated[
        Path | None,
        Option("--out", help="The folder for one run folder a version."),
    ] = None,
    jobs: JobsOption = None,
    limit: LimitOption = None,
    assign: AssignmentsOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare versions of a prompt, and measure the choice on cases it did not use.

    For each case, the version is chosen on all other cases. Replies that versions share come from
    the cache. Versions are folders of prompts/ in a checkout of the repository.

    Example:
      archqa tune data/dev.json --model gpt-4.1 --agent decision --prompts decision/v2,decision/v3
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
    )
    versions = map(str.strip, prompts.split(","))
    with Progress(quiet=quiet or as_json) as progress:
        result = search_prompts(
            cases,
            agent,
            tuple(dict.fromkeys(version for version in versions if version)),
            settings,
            key=key,
            out=out_dir,
            limit=limit,
            on_start=progress.on_start,
            on_case=progress.on_case,
            announce=Announcer(print_problem, quiet=quiet),
        )
    print_key(result.key)
    if as_json:
        print_json(result.as_json())
        return
    table = number_table("strict micro F1, percent", "prompt", "F1", "chosen for")
    for version, f1 in result.versions.items():
        table.add_row(version, f"{f1:.1f}", f"{result.chosen.get(version, 0)} cases")
    table.add_row(
        "chosen without the case itself", f"{result.held_out_f1:.1f}", "", style="bold"
    )
    console.print(table)
    console.print(f"use it with --set agents.{result.agent}.prompt={result.best}")
