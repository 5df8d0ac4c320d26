"""`archqa show RUN [CASE]`: a run's cases, or one case with its evidence and judgements."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from archqa.cli.console import console, format_dollars
from archqa.cli.options import RunArgument
from archqa.cli.progress import result_table
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.core.key import CaseKey
from archqa.core.near_misses import no_such_case
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.errors import InputError
from archqa.report.note_view import LABEL_CODES
from archqa.report.report_data import load_note_keys
from archqa.runs.record import CaseRecord
from archqa.runs.run import Run
from archqa.safety.files import write_private_text
from archqa.safety.text import printable

_FONT_RULE = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Rich's SVG loads fonts from another host; these rules are removed."""

_LONG_FIELDS = frozenset({"trace", "history", "rows", "agent_fhir_resources"})
"""Fields of a result that are too long for a terminal."""


def command(
    run: RunArgument,
    case: Annotated[str | None, Argument(help="A case of it.")] = None,
    key: Annotated[
        Path | None, Option(help="A key, to mark correct and missed sentences.")
    ] = None,
    rationales: Annotated[
        bool, Option("--rationales", help="Print each agent's reasons too.")
    ] = False,
    svg: Annotated[
        Path | None, Option(help="Also save the output as a picture.")
    ] = None,
) -> None:
    """Show a run's cases, or one case with its answer, evidence and every agent's verdict.

    Examples:
      archqa show runs/dev
      archqa show runs/dev 3 --rationales
    """
    opened_run = Run.open(run)
    with _recording(svg, f"archqa show {case or ''}".strip()):
        if case is None:
            console.print(result_table(opened_run))
            _print_remarks(opened_run.manifest.remarks)
            console.print(_case_list(opened_run))
        else:
            _show_case(opened_run, case, key, rationales=rationales)


@contextmanager
def _recording(svg: Path | None, title: str) -> Iterator[None]:
    """Save what is printed as a picture too; without a path for it, do nothing."""
    if svg is None:
        yield
        return
    console.record = True
    console.soft_wrap = (
        False  # A terminal wraps long lines itself; a picture cuts them off.
    )
    try:
        yield
        picture = console.export_svg(title=printable(title))
    finally:
        console.record = False
        console.soft_wrap = True
    write_private_text(svg, _FONT_RULE.sub("", picture))


def _case_list(run: Run) -> Table:
    table = Table(
        "case",
        "status",
        "sentences",
        "cited",
        "words",
        "calls",
        "cost",
        "remarks or error",
    )
    sentence_counts = {case.id: len(case.sentences) for case in run.notes}
    for record in run.records:
        usage = record.usage
        table.add_row(
            Text(record.id),
            record.status.value,
            str(sentence_counts.get(record.id, "")),
            Text(",".join(record.evidence)),
            str(record.answer.words) if record.answer else "",
            str(usage.calls),
            format_dollars(usage.cost_usd) if usage.calls else "",
            Text(record.error or "; ".join(record.remarks)),
        )
    return table


def _show_case(run: Run, case_id: str, key: Path | None, *, rationales: bool) -> None:
    records = {record.id: record for record in run.records}
    if case_id not in records:
        raise no_such_case(case_id, list(records))
    item = next((item for item in run.cases if item.id == case_id), None)
    if item is None:
        mistake = ": is damaged: it lacks a case that cases.jsonl has."
        raise InputError(
            run.path / "input.jsonl", [mistake], "Run `archqa predict` anew."
        )
    if isinstance(item, Case):
        case_key = load_note_keys(run, key).get(case_id)
        _show_note_case(item, records[case_id], case_key, rationales=rationales)
    else:
        _show_record_item(item, records[case_id])


def _show_record_item(item: RecordQuestion | ClinicalTask, record: CaseRecord) -> None:
    """Show a question or task on a FHIR record, and its result without the conversation."""
    for name, text in item.model_dump(exclude={"id"}).items():
        if text:
            _print_heading(name.replace("_", " "))
            console.print(Text(text))
    _print_heading(f"Result ({record.status.value})")
    fields = {}
    for name, content in record.result.to_json().items() if record.result else ():
        if content and name not in _LONG_FIELDS:
            fields[name] = content
    result = (
        json.dumps(fields, ensure_ascii=False, indent=2) if fields else record.error
    )
    console.print(Text(result))
    _print_remarks(record.remarks)


def _show_note_case(
    case: Case, record: CaseRecord, key: CaseKey | None, *, rationales: bool
) -> None:
    texts = {"Patient": case.patient_narrative, "Question": case.clinician_question}
    for title, text in texts.items():
        if text:
            _print_heading(title)
            console.print(Text(text), soft_wrap=False)
    _print_heading(f"Answer ({record.status.value})")
    answer = record.answer.submission if record.answer else record.error
    console.print(Text(answer))
    _print_remarks(record.remarks)
    console.print(_sentence_table(case, record, key))
    if not rationales:
        return
    for agent, judgements in record.judgements.items():
        _print_heading(agent)
        for judgement in judgements:
            sentence = f"[{judgement.sentence_id}] {judgement.label.value}"
            console.print(Text(f"  {sentence}: {judgement.rationale}"))


def _print_heading(text: str) -> None:
    console.print(Text(f"\n{text}", style="bold"))


def _print_remarks(remarks: Sequence[str]) -> None:
    for remark in remarks:
        console.print(Text(f"  remark: {remark}", style="dim"))


def _sentence_table(case: Case, record: CaseRecord, key: CaseKey | None) -> Table:
    """Return the table of sentences by agents, with the key's label in its last column."""
    table = Table(
        title="\n▶ cited   E essential   s supplementary   · not relevant",
        title_justify="left",
    )
    table.add_column("")
    table.add_column("id")
    table.add_column("sentence", ratio=1)
    for agent in record.judgements:
        table.add_column(Text(agent), max_width=12)
    if key:
        table.add_column(Text("key"), max_width=12)
    cited_ids = record.answer.cited if record.answer else frozenset()
    # Of several judgements of a sentence by one agent, the last.
    judgements_by_id = []
    for judgements in record.judgements.values():
        judgements_by_id.append(
            {judgement.sentence_id: judgement for judgement in judgements}
        )
    for sentence in case.sentences:
        is_cited = sentence.id in cited_ids
        cells: list[str | Text] = []
        for by_id in judgements_by_id:
            cells.append(_judgement_cell(by_id.get(sentence.id)))
        if key:
            label = key.labels.get(sentence.id)
            # In red where the citation disagrees with the key.
            is_right = label is None or is_cited == (label is Relevance.ESSENTIAL)
            code = LABEL_CODES[label] if label else "–"
            cells.append(Text(code, style="" if is_right else "bold red"))
        symbol, style = ("▶", "bold green") if is_cited else ("", "")
        table.add_row(
            symbol, Text(sentence.id), Text(sentence.text, style=style), *cells
        )
    return table


def _judgement_cell(judgement: Judgement | None) -> str:
    if judgement is None:
        return "–"
    code = LABEL_CODES[judgement.label]
    return (
        code if judgement.probability is None else f"{code} {judgement.probability:.2f}"
    )
