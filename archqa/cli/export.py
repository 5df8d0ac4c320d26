"""`archqa export RUN`: writes a finished run in the format of another tool."""

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_content, print_notice
from archqa.cli.options import RunArgument
from archqa.core.near_misses import unknown_name
from archqa.runs.export import (
    ROWS,
    CaseScores,
    export,
    formats,
    takes_zip,
    zip_submission,
)
from archqa.safety.files import write_private_bytes, write_private_text
from archqa.tasks import archehr_2025


def command(
    run: RunArgument,
    format_name: Annotated[
        str, typer.Option("--format", help="See `archqa list formats`.")
    ] = archehr_2025.NAME,
    out: Annotated[
        Path | None, typer.Option(help="A file; default: standard output.")
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Export although some cases have no answer."),
    ] = False,
) -> None:
    """Write a run's answers as a submission or a table, or for another tool.

    Only you can read the file. In csv, a cell that a spreadsheet would take for a formula starts with an apostrophe.
    jsonl has one row a case with question, answer, lines, citations, evidence and, if the run was
    scored, its scores. fhir-bundle are answers from a FHIR record with their Provenance.

    Examples:
      archqa export runs/dev --format archehr-2025 --out submission.json
      archqa export runs/dev --format archehr-2026-st2 --out submission.zip
      archqa export runs/dev --format csv --out answers.csv
      archqa export runs/dev --format jsonl --out data.jsonl
      archqa export runs/fhir --format fhir-bundle --out answers.json
    """
    if format_name not in formats():
        raise unknown_name("format", format_name, formats())
    scores: CaseScores = {}
    if format_name == ROWS and (run / "scores.json").is_file():
        from archqa.report.report_data import (
            load_report_data,
        )  # It imports the metrics.

        scores = load_report_data(run).per_case
    content = export(run, format_name, partial=partial, case_scores=scores)
    if out is None:
        print_content(content)
        return
    if out.suffix == ".zip" or (takes_zip(format_name) and out.suffix != ".json"):
        write_private_bytes(out, zip_submission(content))
    else:
        write_private_text(out, content)
    print_notice(f"{format_name} written to {out}")
