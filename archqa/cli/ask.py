"""`archqa ask "QUESTION"`: one question about a note or a patient, answered here and now."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from archqa.ask.chart import ask_patient
from archqa.ask.note import AskResult, ask_note
from archqa.cli.console import configure_logging, console, print_json, print_notice
from archqa.errors import CallerError, InputError
from archqa.settings import load_settings


def command(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    note: Annotated[
        Path | None, typer.Option(help="A note as plain text, - for standard input.")
    ] = None,
    patient: Annotated[
        str | None, typer.Option(help="A patient of the record, by FHIR id.")
    ] = None,
    record: Annotated[
        str | None, typer.Option(help="The FHIR store or server that has the patient.")
    ] = None,
    context: Annotated[
        str, typer.Option(help='What else is known, e.g. "The current time is 2153-12-31".')
    ] = "",
    model: Annotated[
        str | None, typer.Option(help="Model for every agent; default: the embedded engine.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")] = False,
) -> None:
    """Answer one question from a note or a patient's record, with evidence for every line.

    The note is split into sentences, which the answer cites by number. With a patient, both the resources and the
    notes among them (DocumentReference) are read.

    Examples:
      archqa ask "Why was he given furosemide?" --note discharge.txt
      archqa ask "What was the last creatinine?" --patient 1b7c7 --record mimic.db
    """
    configure_logging(verbose=verbose)
    settings = load_settings(config, {"model": model, "base_url": base_url}, assign or ())
    if (note is None) == (patient is None):
        raise CallerError(
            "Ask of one thing: a note or a patient.\nName --note FILE, or --patient ID with --record."
        )
    if patient is not None:
        if record is None:
            raise CallerError("A patient is in a record.\nName the store or server with --record.")
        answered = ask_patient(question, patient, record, settings, context=context)
    else:
        assert note is not None
        answered = ask_note(question, _read(note), settings)
    if as_json:
        print_json(_plain(answered))
    else:
        _tell(answered)


def _read(note: Path) -> str:
    if str(note) == "-":
        return sys.stdin.read()
    try:
        return note.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            note, [f": byte {error.start + 1} is not UTF-8."], "Save the note as UTF-8 text."
        ) from None
    except OSError as error:
        raise InputError(
            note, [f": {error.strerror}."], "Name a note as a plain text file."
        ) from None


def _plain(answered: AskResult) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "question": answered.question,
        "answer": answered.text,
        "claims": [each.model_dump() for each in answered.claims],
        "evidence": [each.model_dump() for each in answered.evidence],
        "query": getattr(answered.on_record, "sentence", None),
        "performer": answered.performer,
        "remarks": list(answered.remarks),
        "calls": answered.usage.calls,
        "cost_usd": answered.usage.cost_usd,
    }


def _tell(answered: AskResult) -> None:
    for claim in answered.claims:
        console.print(
            Text(claim.text) + Text(f"  [{', '.join(claim.citations)}]", style="cyan"),
            soft_wrap=False,
        )
    table = Table(
        box=None, padding=(0, 2, 0, 0), show_edge=False, title="\nEvidence", title_justify="left"
    )
    for name, ratio in (("", None), ("", 1), ("probability", None)):
        table.add_column(name, ratio=ratio, justify="right" if name else "left")
    for each in answered.evidence:
        sure = "–" if each.probability is None else f"{each.probability:.2f}"
        source = f"  {each.source}" if each.kind == "sentence" and each.source else ""
        table.add_row(
            Text(each.id, style="cyan"), Text(each.text) + Text(source, style="dim"), sure
        )
    console.print(table)
    for remark in answered.remarks:
        print_notice(remark)
    print_notice(f"answered by {answered.performer}.")
