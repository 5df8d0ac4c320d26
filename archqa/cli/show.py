"""`archqa show RUN [CASE]`: the note with the cited sentences marked, and what each agent held of each sentence."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from archqa import tasks
from archqa.cli.console import console
from archqa.cli.progress import format_dollars, result_table
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.core.key import CaseKey
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.errors import CallerError
from archqa.runs.record import CaseRecord
from archqa.runs.run import Run

_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Rich's pictures ask another host for their fonts; ours ask nobody."""

_LONG = frozenset({"trace", "history", "rows", "agent_fhir_resources"})
"""What a page shows better than a terminal."""

_SHORT = {Relevance.ESSENTIAL: "E", Relevance.SUPPLEMENTARY: "s", Relevance.NOT_RELEVANT: "·"}


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    case: Annotated[str | None, typer.Argument(help="A case of it.")] = None,
    key: Annotated[
        Path | None, typer.Option(help="A key, to mark what is right and what is missed.")
    ] = None,
    rationales: Annotated[
        bool, typer.Option("--rationales", help="Print each agent's reasons too.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Also save what is shown as a picture.")] = None,
) -> None:
    """Show a run's cases, or one case with its answer, evidence and every agent's verdict.

    Examples:
      archqa show runs/dev
      archqa show runs/dev 3 --rationales
    """
    opened = Run.open(run)
    console.record = svg is not None
    _show(opened, case, key, rationales=rationales)
    if svg is not None:
        drawn = console.export_svg(title=f"archqa show {case or ''}".strip())
        svg.write_text(_FONTS.sub("", drawn), encoding="utf-8")


def _show(opened: Run, case: str | None, key: Path | None, *, rationales: bool) -> None:
    if case is None:
        console.print(result_table(opened))
        console.print(_overview(opened))
        return
    record = next((each for each in opened.records if each.id == case), None)
    if record is None:
        raise CallerError(
            f"The run has no case {case!r}.\nIt has: {', '.join(each.id for each in opened.records)}."
        )
    shown = next(each for each in opened.cases if each.id == case)
    if isinstance(shown, Case):
        _show_case(shown, record, _key_of(opened, key, case), rationales=rationales)
    else:
        _show_item(shown, record)


def _overview(run: Run) -> Table:
    table = Table()
    for name in (
        "case",
        "status",
        "sentences",
        "cited",
        "words",
        "calls",
        "cost",
        "remarks or error",
    ):
        table.add_column(name)
    sizes = {case.id: len(case.sentences) for case in run.notes}
    for record in run.records:
        answer = record.answer
        table.add_row(
            Text(record.id),
            record.status.value,
            str(sizes.get(record.id, "")),
            Text(",".join(record.evidence)),
            str(answer.words) if answer else "",
            str(record.usage.calls),
            format_dollars(record.usage.cost_usd) if record.usage.calls else "",
            Text(record.error or "; ".join(record.remarks)),
        )
    return table


def _show_item(item: RecordQuestion | ClinicalTask, record: CaseRecord) -> None:
    """A question or task on a FHIR record: what was asked, and all that was made of it but its conversation."""
    for name, text in item.model_dump(exclude={"id"}).items():
        if text:
            console.print(Text(f"\n{name.replace('_', ' ')}", style="bold"))
            console.print(Text(text))
    console.print(Text(f"\nResult ({record.status.value})", style="bold"))
    result = record.result.to_json() if record.result else {}
    told = {name: value for name, value in result.items() if name not in _LONG and value}
    console.print(Text(json.dumps(told, ensure_ascii=False, indent=2) if told else record.error))
    for remark in record.remarks:
        console.print(Text(f"  remark: {remark}", style="dim"))


def _show_case(case: Case, record: CaseRecord, key: CaseKey | None, *, rationales: bool) -> None:
    for title, text in (("Patient", case.patient_narrative), ("Question", case.clinician_question)):
        if text:
            console.print(Text(f"\n{title}", style="bold"))
            console.print(Text(text), soft_wrap=False)
    console.print(Text(f"\nAnswer ({record.status.value})", style="bold"))
    console.print(Text(record.answer.submission if record.answer else record.error))
    for remark in record.remarks:
        console.print(Text(f"  remark: {remark}", style="dim"))
    console.print(_note(case, record, key))
    if rationales:
        _show_rationales(record)


def _note(case: Case, record: CaseRecord, key: CaseKey | None) -> Table:
    """The grid of sentences and agents. E essential, s supplementary, · not relevant."""
    cited = record.answer.cited if record.answer else frozenset()
    agents = {
        name: {each.sentence_id: each for each in judged}
        for name, judged in record.judgements.items()
    }
    table = Table(
        title="\n▶ cited   E essential   s supplementary   · not relevant", title_justify="left"
    )
    for name in ("", "id"):
        table.add_column(name)
    table.add_column("sentence", ratio=1)
    for name in (*agents, *(["key"] if key else [])):
        table.add_column(Text(name), max_width=12)
    for sentence in case.sentences:
        marked = "▶" if sentence.id in cited else ""
        verdicts = [_verdict(judged.get(sentence.id)) for judged in agents.values()]
        gold = [_gold(sentence.id, marked, key)] if key else []
        style = "bold green" if marked else ""
        table.add_row(marked, Text(sentence.id), Text(sentence.text, style=style), *verdicts, *gold)
    return table


def _verdict(judgement: Judgement | None) -> str:
    if judgement is None:
        return "–"
    sure = "" if judgement.probability is None else f" {judgement.probability:.2f}"
    return f"{_SHORT[judgement.label]}{sure}"


def _gold(sentence_id: str, marked: str, key: CaseKey) -> Text:
    label = key.labels.get(sentence_id)
    if label is None:
        return Text("–")
    right = bool(marked) == (label is Relevance.ESSENTIAL)
    return Text(_SHORT[label], style="" if right else "bold red")


def _show_rationales(record: CaseRecord) -> None:
    for name, judged in record.judgements.items():
        console.print(Text(f"\n{name}", style="bold"))
        for each in judged:
            console.print(Text(f"  [{each.sentence_id}] {each.label.value}: {each.rationale}"))


def _key_of(run: Run, key: Path | None, case: str) -> CaseKey | None:
    """The case's key: the file named, else the one beside the case file, else none."""
    data = Path(run.manifest.data.path)
    found = key or (tasks.find_key(data) if data.is_file() else None)
    return tasks.load_key(found).keys.get(case) if found else None
