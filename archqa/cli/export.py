"""`archqa export RUN`: writes a finished run in the format of another tool."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_content, print_notice, print_problem
from archqa.cli.options import AllowPlainHttpOption, RunArgument
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.runs.export import (
    ROWS,
    SPANS,
    ExportOptions,
    export,
    formats,
    takes_zip,
    zip_submission,
)
from archqa.runs.run import Run
from archqa.safety.base_urls import host_of
from archqa.safety.private_files import write_private_bytes, write_private_text
from archqa.tasks import archehr_2025


def command(
    run: RunArgument,
    format_name: Annotated[
        str, typer.Option("--format", help="See `archqa list formats`.")
    ] = archehr_2025.NAME,
    out: Annotated[Path | None, typer.Option(help="A file; default: standard output.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Export although some cases have no answer.")
    ] = False,
    card: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With jsonl: write a dataset card (README.md)."),
    ] = None,
    with_text: Annotated[
        bool,
        typer.Option("--with-text", help="With otel-genai: prompts and replies, as record text."),
    ] = False,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With otel-genai: send the spans to this collector."),
    ] = None,
    allow_plain_http: AllowPlainHttpOption = None,
) -> None:
    """Write a run's answers as a submission or a table, or for another tool.

    Only you can read the file. In csv, a cell that a spreadsheet would take for a formula starts with an apostrophe.
    jsonl has one row a case with question, answer, lines, citations, evidence and, if the run was
    scored, its scores. otel-genai are OpenTelemetry spans (OTLP/JSON) without record text;
    fhir-bundle are answers from a FHIR record with their Provenance.

    Examples:
      archqa export runs/dev --format archehr-2025 --out submission.json
      archqa export runs/dev --format archehr-2026-st2 --out submission.zip
      archqa export runs/dev --format csv --out answers.csv
      archqa export runs/dev --format jsonl --out data.jsonl --card README.md
      archqa export runs/dev --format otel-genai --endpoint http://127.0.0.1:4318
      archqa export runs/fhir --format fhir-bundle --out answers.json
    """
    if format_name not in formats():
        raise unknown_name("format", format_name, formats())
    _check_options(
        format_name, {"--card": (card, ROWS), "--endpoint": (endpoint, SPANS)}, with_text=with_text
    )
    options = ExportOptions(_case_scores(run, format_name), with_text)
    if endpoint is not None:
        _send(run, endpoint, with_text=with_text, allow_plain_http=bool(allow_plain_http))
        if out is None:
            return
    content = export(run, format_name, partial=partial, options=options)
    if card is not None:
        _write_card(run, card, out)
    if out is None:
        print_content(content)
        return
    if _is_zipped(out, format_name):
        write_private_bytes(out, zip_submission(content))
    else:
        write_private_text(out, content)
    print_notice(f"{format_name} written to {out}")


def _check_options(
    format_name: str, options: Mapping[str, tuple[object, str]], *, with_text: bool
) -> None:
    """Raise `CallerError` for options of another format."""
    typed = {name: of for name, (value, of) in options.items() if value is not None}
    if with_text:
        typed["--with-text"] = SPANS
    for name, of in typed.items():
        if of != format_name:
            raise CallerError(f"{name} is for --format {of}.\nLeave it out.")


def _case_scores(run: Path, format_name: str) -> Mapping[str, Mapping[str, float]]:
    """Return the scores of each case, for rows of a run that was scored."""
    if format_name != ROWS or not (run / "scores.json").is_file():
        return {}
    from archqa.report.report_data import load_report_data  # It imports the metrics.

    return load_report_data(run).per_case


def _write_card(run: Path, card: Path, out: Path | None) -> None:
    from archqa.runs.exports.dataset_card import dataset_card

    write_private_text(card, dataset_card(Run.open(run), out.name if out else "data.jsonl"))
    print_notice(f"dataset card written to {card}")


def _send(run: Path, endpoint: str, *, with_text: bool, allow_plain_http: bool) -> None:
    from archqa.runs.exports.collector import send_spans, traces_url
    from archqa.runs.exports.spans import span_lines

    url = traces_url(endpoint, allow_plain_http=allow_plain_http)
    what = "spans with record text" if with_text else "spans without record text"
    print_problem(f"{what} go to {host_of(url)}.")
    count = send_spans(span_lines(Run.open(run), with_text=with_text), url)
    print_notice(f"the collector took {count} spans")


def _is_zipped(path: Path, format_name: str) -> bool:
    if path.suffix == ".zip":
        return True
    return takes_zip(format_name) and path.suffix != ".json"
