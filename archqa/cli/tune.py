"""`archqa tune CASES`: which version of a prompt is best, judged on cases the choice did not see."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from archqa.cli.console import configure_logging, console, print_json
from archqa.cli.progress import Progress
from archqa.evaluation.prompt_tuning import PromptSearchResult, search_prompts
from archqa.settings import load_settings


def command(
    cases: Annotated[str, typer.Argument(help="A case file with a key, or mini.")],
    agent: Annotated[
        str, typer.Option(help="The agent whose prompt is searched.")
    ] = "answer_first",
    prompts: Annotated[
        str, typer.Option(metavar="NAMES", help="Versions, with commas.")
    ] = "answer_first/v1,answer_first/v2",
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the file.")
    ] = None,
    pipeline: Annotated[str, typer.Option(help="See `archqa list pipelines`.")] = "panel",
    model: Annotated[str | None, typer.Option(help="Model for every agent.")] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server.")] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Holds one run folder a version.")
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
    """Compare versions of a prompt, and measure the choice on cases it did not use.

    What versions share is asked once, since replies are kept.

    Example:
      archqa tune data/dev.json --model gpt-4.1 --agent answer_first --prompts answer_first/v1,answer_first/v2
    """
    configure_logging(verbose=False)
    typed: dict[str, Any] = {
        "pipeline": pipeline,
        "model": model,
        "base_url": base_url,
        "jobs": jobs,
    }
    versions = tuple(dict.fromkeys(each.strip() for each in prompts.split(",") if each.strip()))
    with Progress(quiet=quiet or as_json) as progress:
        found = search_prompts(
            cases,
            agent,
            versions,
            load_settings(config, typed, assign or ()),
            key=key,
            out=out_dir,
            limit=limit,
            on_start=progress.start,
            on_case=progress.case,
        )
    if as_json:
        print_json(found.as_json())
        return
    console.print(_table(found))
    console.print(f"use it with --set agents.{found.agent}.prompt={found.best}", markup=False)


def _table(found: PromptSearchResult) -> Table:
    table = Table(title="strict micro F1, percent", title_justify="left")
    for name in ("prompt", "F1", "chosen for"):
        table.add_column(name, justify="left" if name == "prompt" else "right")
    for version, f1 in found.versions.items():
        table.add_row(version, f"{f1:.1f}", f"{found.chosen.get(version, 0)} cases")
    table.add_row("chosen without the case itself", f"{found.held_out_f1:.1f}", "", style="bold")
    return table
