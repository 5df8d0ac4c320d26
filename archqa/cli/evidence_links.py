"""`archqa evidence links`: fit the linker of subtask 4 (2026), or measure it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from archqa import tasks
from archqa.cli.console import console, print_json, print_notice
from archqa.cli.engine_training import load_labels, require_training_package
from archqa.engine import answer_linking
from archqa.errors import CallerError
from archqa.tasks import archehr_2026

if TYPE_CHECKING:
    from archqa.engine.training.linker_training import (
        AnsweredCase,
        LinkingExample,
        LinkingScores,
    )

MAX_FOLDS = 8


def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="CASES...", help="Case files, with their keys next to them."),
    ],
    train: Annotated[
        bool, typer.Option("--train", help="Fit on these cases and replace the shipped linker.")
    ] = False,
    cross_fit: Annotated[
        bool,
        typer.Option("--cross-fit", help="Score every case by a linker fitted on the rest."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Micro F1 of linking clinicians' answers to their notes, compared with similarity alone.

    Examples:
      archqa evidence links data/dev.json
      archqa evidence links data/train.json data/train-real.json --train
    """
    require_training_package()
    from archqa.engine.training import linker_training

    answered_cases = [answered for file in files for answered in _load_answered_cases(file)]
    examples = linker_training.build_examples(answered_cases)
    if not examples:
        raise CallerError(
            "None of these cases has an answer with citations.\n"
            "A key has them in its field `clinician_answer`."
        )
    if train:
        _train_linker(examples)
        return
    scores = _evaluate_linker(examples, cross_fit=cross_fit)
    if as_json:
        print_json(scores._asdict())
        return
    console.print(_score_table(scores))


def _train_linker(examples: list[LinkingExample]) -> None:
    from archqa.engine.training import linker_training

    linker = linker_training.train(examples)
    linker_training.save(linker, answer_linking.LINKER_FILE)
    print_notice(f"fitted on {len(examples)} cases; written to {answer_linking.LINKER_FILE}")


def _evaluate_linker(examples: list[LinkingExample], *, cross_fit: bool) -> LinkingScores:
    from archqa.engine.training import linker_training

    linker = answer_linking.default_linker()
    if cross_fit:
        folds = min(MAX_FOLDS, len(examples))
        probabilities = linker_training.cross_fit(examples, folds=folds)
    else:
        probabilities = [linker.probabilities(example.table) for example in examples]
    return linker_training.evaluate_links(examples, probabilities, linker)


def _load_answered_cases(file: Path) -> list[AnsweredCase]:
    key_file, key_by_case = load_labels(file)
    cases = tasks.load_cases(file, archehr_2026.EVIDENCE_ALIGNMENT)
    case_file = tasks.with_clinician_answers(cases, key_file)
    return [
        (case, tasks.clinician_sentences(key_by_case[case.id]))
        for case in case_file.notes
        if case.id in key_by_case
    ]


def _score_table(scores: LinkingScores) -> Table:
    table = Table(
        title=f"{scores.cases} cases, {scores.links} links; micro, percent", title_justify="left"
    )
    table.add_column("", justify="left")
    for name in ("precision", "recall", "F1"):
        table.add_column(name, justify="right")
    table.add_row(
        "the linker",
        f"{scores.precision:.1f}",
        f"{scores.recall:.1f}",
        f"{scores.f1:.1f}",
        style="bold",
    )
    table.add_row("the most similar sentence", "", "", f"{scores.most_similar_f1:.1f}")
    table.add_row("every link", "", "", f"{scores.everything_f1:.1f}")
    return table
