"""`archqa cases check FILE`: is this a case file, and does its key belong to it?"""

from pathlib import Path
from typing import Annotated

import typer

from archqa import tasks
from archqa.cli.console import console, print_json, print_notice
from archqa.core.case import Case

app = typer.Typer(help="Case files.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Case files."""


@app.command("check")
def check(
    file: Annotated[
        str, typer.Argument(help="ArchEHR-QA XML or JSON, - for standard input, or mini.")
    ],
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the file.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task, where the content does not tell.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Validate a case file and its key; every mistake is reported at once, with its line or path and its fix.

    Example:
      archqa cases check data/dev.xml
    """
    found = tasks.load_cases(file, task)
    key = key or (tasks.find_key(file) if file != "-" else None)
    warnings = tasks.check_key_matches(found.notes, tasks.load_key(key).keys) if key else []
    sentences = sum(len(case.sentences) for case in found.cases if isinstance(case, Case))
    if as_json:
        ids = [case.id for case in found.cases]
        print_json(
            {
                "task": found.task,
                "cases": ids,
                "sentences": sentences,
                "sha256": found.sha256,
                "warnings": warnings,
            }
        )
        return
    for warning in warnings:
        print_notice(warning)
    console.print(
        f"{found.path}: {found.task}, {len(found.cases)} cases, {sentences} sentences, sha256 {found.sha256[:12]}"
    )
    console.print(
        f"key: {key or 'none found'}; cases {', '.join(case.id for case in found.cases)}",
        markup=False,
    )
