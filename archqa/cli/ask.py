"""`archqa ask "QUESTION"`: one question about a note or a patient, without a run folder."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from archqa.asking.chart import ask_patient
from archqa.asking.note import AskResult, EvidenceLine, ask_note
from archqa.cli.console import configure_logging, console, print_json, print_notice
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BaseUrlOption,
    ConfigOption,
    JsonOption,
    ModelOption,
    VerboseOption,
)
from archqa.cli.settings import command_settings, print_embedded_notice
from archqa.errors import CallerError, CaseFailed, InputError
from archqa.runs.destinations import Announcer
from archqa.settings import Settings


def command(
    question: Annotated[str, typer.Argument(help="The question.")],
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
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    assign: AssignmentsOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Answer one question from a note or a patient's record, with evidence for every line.

    A note is split into sentences, which the answer cites by number. For a patient, the resources
    and the notes among them (DocumentReference) are searched. Without --model or --base-url the
    engine inside archqa answers, on this machine alone; a key in the environment sends nothing.

    Examples:
      archqa ask "Why was he given furosemide?" --note discharge.txt
      archqa ask "What was the last creatinine?" --patient 1b7c7 --record mimic.db
    """
    configure_logging(verbose=verbose)
    options = {"model": model, "base_url": base_url, "allow_plain_http": allow_plain_http}
    settings = command_settings(config, options, assign)
    if (note is None) == (patient is None):
        raise CallerError(
            "Ask of one thing: a note or a patient.\n"
            "Name --note FILE, or --patient ID with --record."
        )
    if settings.pipeline is None and not settings.has_model:
        print_embedded_notice(settings.replace(record=record))
    try:
        if note is not None:
            announce = Announcer(print_notice)
            result = ask_note(question, _read_note(note), settings, announce=announce)
        else:
            result = _ask_patient(question, patient or "", record, context, settings)
    except CaseFailed as failure:
        # What quotes the question is printed with the answers: stderr may end in a log.
        _print_failure(question, failure, as_json=as_json)
        raise
    if as_json:
        print_json(_as_json(result))
    else:
        _print_result(result)


def _ask_patient(
    question: str, patient: str, record: str | None, context: str, settings: Settings
) -> AskResult:
    if record is None:
        raise CallerError("A patient is in a record.\nName the store or server with --record.")
    announce = Announcer(print_notice)
    return ask_patient(question, patient, record, settings, context=context, announce=announce)


def _print_failure(question: str, failure: CaseFailed, *, as_json: bool) -> None:
    if as_json:
        remarks = (failure.full_text,)
        print_json(_as_json(AskResult(question, (), (), "", remarks)))
    elif failure.details:
        console.print(Text(failure.details))


def _read_note(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            path, [f": byte {error.start + 1} is not UTF-8."], "Save the note as UTF-8 text."
        ) from None
    except OSError as error:
        raise InputError(
            path, [f": {error.strerror}."], "Name a note as a plain text file."
        ) from None


def _as_json(result: AskResult) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    return {
        "question": result.question,
        "answer": result.text,
        "claims": [claim.model_dump() for claim in result.claims],
        "evidence": [evidence.model_dump() for evidence in result.evidence],
        "query": getattr(result.on_record, "sentence", None),
        "performer": result.performer,
        "remarks": list(result.remarks),
        "calls": result.usage.calls,
        "cost_usd": result.usage.cost_usd,
    }


def _print_result(result: AskResult) -> None:
    for claim in result.claims:
        citations = Text(f"  [{', '.join(claim.citations)}]", style="cyan")
        console.print(Text(claim.text) + citations, soft_wrap=False)
    console.print(_evidence_table(result.evidence))
    for remark in result.remarks:
        console.print(Text(f"remark: {remark}"))
    print_notice(f"answered by {result.performer}.")


def _evidence_table(evidence: tuple[EvidenceLine, ...]) -> Table:
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        show_edge=False,
        title="\nEvidence",
        title_justify="left",
    )
    table.add_column("")
    table.add_column("", ratio=1)
    table.add_column("probability", justify="right")
    for line in evidence:
        text = Text(line.text)
        if line.kind == "sentence" and line.source:
            text += Text(f"  {line.source}", style="dim")
        probability = "–" if line.probability is None else f"{line.probability:.2f}"
        table.add_row(Text(line.id, style="cyan"), text, probability)
    return table
