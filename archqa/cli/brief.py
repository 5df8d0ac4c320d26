"""`archqa brief`: the summary of one patient for a visit."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from rich.padding import Padding
from rich.text import Text
from typer import Option

from archqa.asking.answer import citation_numbers
from archqa.asking.patient import SeveralPatients
from archqa.asking.question import parse_time
from archqa.briefing.brief import Brief, brief
from archqa.briefing.markdown import (
    brief_markdown,
    evidence_text,
)
from archqa.cli.console import (
    configure_logging,
    console,
    print_content,
    print_json,
    print_line,
    print_notice,
    shown_when_slow,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BaseUrlOption,
    ConfigOption,
    JsonOption,
    ModelOption,
    QuietOption,
    VerboseOption,
    command_settings,
)
from archqa.errors import CallerError
from archqa.runs.destinations import Announcer
from archqa.safety.files import write_private_text


class Format(StrEnum):
    """How a summary is written."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


_FORMAT_OF_SUFFIX = {".md": Format.MARKDOWN, ".html": Format.HTML, ".json": Format.JSON}


def command(
    patient: Annotated[
        str,
        Option(help="A patient of the record: FHIR id, identifier (MRN) or name."),
    ],
    record: Annotated[
        str, Option(help="The FHIR store or server that has the patient.")
    ],
    now: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="The time of the visit; what is later is left out.",
            show_default="the present, or the end of a dead patient's or a shifted record",
        ),
    ] = None,
    sections: Annotated[
        str | None,
        Option(metavar="NAME,NAME", help="Some sections by name, with commas between."),
    ] = None,
    evidence: Annotated[
        bool,
        Option(
            "--evidence", help="Write the numbered evidence in full below the page."
        ),
    ] = False,
    form: Annotated[
        Format | None,
        Option(
            "--format",
            help="How to write it.",
            show_default="markdown, or as FILE ends",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write a file that only you can read."),
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    assign: AssignmentsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Summarise a patient's record for a visit on one page, each line with what it rests on.

    Allergies, code status and wishes, problems (first what is treated or was dealt with lately),
    medicines with what newer notes say of them, medicines and follow-ups of notes, the last visits,
    results (abnormal ones first) with the change since the one before, procedures. Lines of notes
    are quoted whole. The numbers are those of the evidence, which --evidence writes in full (in HTML
    it is folded, JSON always has it). What is not in what it cites is left out, and a remark says so.
    Without --model or --base-url the lines are read from the record on this machine; with one, a
    model shortens them, and each of its lines is checked.

    Examples:
      archqa brief --patient "Lopez, Maria" --record record.db
      archqa brief --patient 1b7c7 --record mimic.db --now 2153-12-31 --out visit.html
      archqa brief --patient 1b7c7 --record record.db --evidence --out visit.md
      archqa brief --patient 1b7c7 --record record.db --sections medicines,allergies --json

    Sections: person, allergies, wishes, problems, social_needs, medicines, medicines_in_notes,
    medicine_changes, follow_ups, visits, vital_signs, labs, procedures, immunizations, resolved;
    and only by name circumstances (work, education, family and the like).
    """
    configure_logging(verbose=verbose, quiet=quiet)
    settings = command_settings(
        config,
        assign,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
    )
    form = _format(form, out, as_json=as_json)
    try:
        with shown_when_slow("reading the record"):
            summary = brief(
                patient=patient,
                record=record,
                now=parse_time(now),
                sections=sections.split(",") if sections is not None else None,
                settings=settings,
                announce=Announcer(print_notice, quiet=quiet),
            )
    except SeveralPatients as error:
        if form is Format.JSON:
            print_json(error.as_json)
        else:
            print_line(error.details)
        raise
    if out is not None:
        write_private_text(out, _text(summary, form, evidence=evidence))
        print_notice(
            "the file holds record text: protect it as you protect the record."
        )
        print_line(out)
    elif form is Format.JSON:
        print_json(summary.as_json())
    elif form is Format.MARKDOWN and console.is_terminal:
        _print_page(summary, evidence=evidence)
    else:
        print_content(_text(summary, form, evidence=evidence))


def _print_page(summary: Brief, *, evidence: bool) -> None:
    """Print the summary as people read it in a terminal."""
    name = summary.patient["name"] or "Patient without a name"
    place = f"  {summary.patient['id']}, as of {summary.visit_time}"
    console.print(Text.assemble((name, "bold"), (place, "dim")))
    for remark in summary.remarks:
        console.print(Text(remark, style="italic"), soft_wrap=False)
    for section in summary.filled_sections:
        heading = Text("" if section.name == "person" else section.title, style="bold")
        if section.message:
            heading += Text(f"  {section.message}", style="dim not bold")
        if heading:
            console.print(heading, soft_wrap=False)
        for line in section.lines:
            cited = Text(
                f" [{citation_numbers(line.citations, summary.evidence)}]", style="cyan"
            )
            console.print(
                Padding(Text(line.text) + cited, (0, 0, 0, 2)), soft_wrap=False
            )
    console.print(Text(summary.nothing_recorded), soft_wrap=False)
    if not evidence:
        print_notice("--evidence prints what the numbers stand for.")
        return
    console.print(Text("Evidence", style="bold"))
    for number, piece in enumerate(summary.evidence, start=1):
        text = Text(f"{number}  ") + Text(piece.id, style="cyan")
        console.print(text + Text(f"  {evidence_text(piece)}"), soft_wrap=False)


def _format(form: Format | None, out: Path | None, *, as_json: bool) -> Format:
    """The format that was typed, else the one that the file's name ends with."""
    if as_json and form not in (None, Format.JSON):
        raise CallerError(
            "--json is another format than --format.\nLeave one of them out."
        )
    if as_json:
        return Format.JSON
    if form is not None:
        return form
    return _FORMAT_OF_SUFFIX.get(out.suffix.lower() if out else "", Format.MARKDOWN)


def _text(summary: Brief, form: Format, *, evidence: bool) -> str:
    if form is Format.HTML:
        from archqa.report import brief_html  # Only the page needs templates.

        return brief_html(summary)
    if form is Format.JSON:
        return json.dumps(summary.as_json(), ensure_ascii=False, indent=2) + "\n"
    return brief_markdown(summary, evidence=evidence)
