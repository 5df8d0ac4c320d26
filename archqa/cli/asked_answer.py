"""An answer to a person's question, on the terminal."""

from rich.table import Table
from rich.text import Text

from archqa.asking.answer import STATUS_WORDS, Answer, AnswerLine, Evidence
from archqa.cli.console import console, print_notice


def print_answer(answer: Answer) -> None:
    """Print the status in words, the patient, the lines, the evidence and the remarks."""
    console.print(Text(STATUS_WORDS[answer.status], style="bold"))
    if answer.understood:
        console.print(Text(f"Understood as: {answer.understood}", style="italic"))
    if answer.patient is not None:
        console.print(_patient_text(answer.patient))
    if answer.message:
        console.print(Text(answer.message), soft_wrap=False)
    for line in answer.lines:
        console.print(_line_text(line), soft_wrap=False)
    if answer.evidence:
        console.print(_evidence_table(answer.evidence))
    if answer.query:
        console.print(Text(f"\nQuery: {answer.query}"))
    for remark in answer.remarks:
        console.print(Text(f"remark: {remark}"))
    print_notice(f"answered by {answer.answered_by}.")


def _patient_text(patient: dict[str, str]) -> Text:
    text = Text(f"Patient: {patient['name'] or 'no name'}")
    return text + Text(f"  [{patient['id']}]", style="cyan")


def _line_text(line: AnswerLine) -> Text:
    """Return a line, the part of it that answers underlined, and its citations."""
    text = Text(line.text)
    if line.answering is not None:
        text.stylize("bold underline", line.answering.start, line.answering.end)
    return text + Text(f"  [{', '.join(line.citations)}]", style="cyan")


def _evidence_table(evidence: tuple[Evidence, ...]) -> Table:
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
    for piece in evidence:
        probability = "–" if piece.probability is None else f"{piece.probability:.2f}"
        table.add_row(Text(piece.id, style="cyan"), _evidence_text(piece), probability)
    return table


def _evidence_text(evidence: Evidence) -> Text:
    """Return the text, below its heading and with its document and date where it has them."""
    text = Text()
    if evidence.heading:
        text.append(f"{evidence.heading}\n", style="dim")
    text.append(evidence.text)
    place = (evidence.source, evidence.date) if evidence.kind == "sentence" else ()
    named = ", ".join(filter(None, place))
    if named:
        text.append(f"  {named}", style="dim")
    return text
