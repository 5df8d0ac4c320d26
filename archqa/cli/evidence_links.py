"""`archqa evidence links`: fit the linker of subtask 4 (2026), or say how good it is."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa import tasks
from archqa.cli.console import console, print_json, print_notice
from archqa.engine import answer_linking
from archqa.engine.training import linker_training
from archqa.engine.training.linker_training import AnsweredCase, LinkingScores
from archqa.errors import CallerError
from archqa.tasks import archehr_2026


def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="CASES...", help="Case files with their keys beside them."),
    ],
    train: Annotated[
        bool, typer.Option("--train", help="Fit on these and replace the shipped linker.")
    ] = False,
    cross: Annotated[
        bool, typer.Option("--cross-fit", help="Score each case by a linker fitted on the others.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Micro F1 of linking the clinicians' answers to their notes, beside the most similar sentence.

    Examples:
      archqa evidence links data/dev.json
      archqa evidence links data/train.json data/train-real.json --train
    """
    examples = linker_training.build_examples([pair for path in files for pair in _answered(path)])
    if not examples:
        raise CallerError(
            "None of these cases has an answer with citations.\nKeys hold them as `clinician_answer`."
        )
    if train:
        linker = linker_training.train(examples)
        linker_training.save(linker, answer_linking.LINKER_FILE)
        print_notice(f"fitted on {len(examples)} cases; written to {answer_linking.LINKER_FILE}")
        return
    linker = answer_linking.default_linker()
    said = (
        linker_training.cross_fit(examples, folds=min(8, len(examples)))
        if cross
        else [linker.probabilities(each.table) for each in examples]
    )
    found = linker_training.evaluate_links(examples, said, linker)
    if as_json:
        print_json(found._asdict())
        return
    console.print(_table(found))


def _answered(path: Path) -> list[AnsweredCase]:
    key = tasks.find_key(path)
    if key is None:
        raise CallerError(f"There is no key beside {path}.\nIt should be {path.stem}_key.json.")
    keys = tasks.load_key(key).keys
    file = tasks.with_clinician_answers(
        tasks.load_cases(path, archehr_2026.EVIDENCE_ALIGNMENT), key
    )
    return [
        (case, tasks.clinician_sentences(keys[case.id])) for case in file.notes if case.id in keys
    ]


def _table(found: LinkingScores) -> Table:
    table = Table(
        title=f"{found.cases} cases, {found.links} links; micro, percent", title_justify="left"
    )
    for name in ("", "precision", "recall", "F1"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row(
        "the linker",
        f"{found.precision:.1f}",
        f"{found.recall:.1f}",
        f"{found.f1:.1f}",
        style="bold",
    )
    table.add_row("the most similar sentence", "", "", f"{found.most_similar_f1:.1f}")
    table.add_row("every link", "", "", f"{found.everything_f1:.1f}")
    return table
