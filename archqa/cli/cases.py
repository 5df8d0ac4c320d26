"""`archqa cases check FILE`: validates a case file and its key."""

from typing import Annotated

import typer

from archqa import tasks
from archqa.cli.console import console, print_json, print_notice
from archqa.cli.options import JsonOption, KeyOption
from archqa.core.case import Case
from archqa.core.id_lists import list_ids

app = typer.Typer(help="Case files.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Case files."""


@app.command("check")
def check(
    file: Annotated[
        str,
        typer.Argument(help="ArchEHR-QA XML or JSON, - for standard input, or mini."),
    ],
    key: KeyOption = None,
    task: Annotated[
        str | None, typer.Option(help="The task, where the content does not tell.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a case file and its key.

    All mistakes are reported together, each with its line or path and how to fix it. A case without
    a question or a note is one; where only the sentences are missing, they are made from the note.

    Example:
      archqa cases check data/dev.xml
    """
    case_file = tasks.load_cases_to_answer(file, task)
    if key is None and file != "-":
        key = tasks.find_key(file)
    warnings: list[str] = []
    if key is not None:
        warnings += tasks.check_key_matches(case_file.notes, tasks.load_key(key).keys)
    sentence_count = sum(
        len(case.sentences) for case in case_file.cases if isinstance(case, Case)
    )
    case_ids = [case.id for case in case_file.cases]
    if as_json:
        print_json(
            {
                "task": case_file.task,
                "cases": case_ids,
                "sentences": sentence_count,
                "sha256": case_file.sha256,
                "warnings": warnings,
                "remarks": case_file.remarks,
            }
        )
        return
    for text in (*case_file.remarks, *warnings):
        print_notice(text)
    size = f"{len(case_ids)} cases, {sentence_count} sentences"
    console.print(
        f"{case_file.path}: {case_file.task}, {size}, sha256 {case_file.sha256[:12]}"
    )
    console.print(f"key: {key or 'none found'}; cases {list_ids(case_ids)}")
