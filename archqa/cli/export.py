"""`archqa export RUN`: a finished run in a format that others take."""

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_notice
from archqa.errors import CallerError
from archqa.runs.export import export, formats, takes_zip, zip_submission
from archqa.tasks import archehr_2025


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    format_name: Annotated[
        str, typer.Option("--format", help="See `archqa list formats`.")
    ] = archehr_2025.NAME,
    out: Annotated[Path | None, typer.Option(help="Where to; default: standard output.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Export although some cases have no answer.")
    ] = False,
) -> None:
    """Write a run's answers as a submission or a table.

    Examples:
      archqa export runs/dev --format archehr-2025 --out submission.json
      archqa export runs/dev --format archehr-2026-st2 --out submission.zip
      archqa export runs/dev --format csv --out answers.csv
    """
    if format_name not in formats():
        raise CallerError(
            f"There is no format {format_name!r}.\nThere are: {', '.join(formats())}."
        )
    content = export(run, format_name, partial=partial)
    if out is None:
        typer.echo(content, nl=False)
        return
    as_zip = out.suffix == ".zip" or (takes_zip(format_name) and out.suffix != ".json")
    out.write_bytes(zip_submission(content) if as_zip else content.encode())
    print_notice(f"{format_name} written to {out}")
