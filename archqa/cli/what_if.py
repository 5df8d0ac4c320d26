"""`archqa what-if RUN`: decides again from the votes of a run, with other settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa.cli.console import console, number_table, print_json, print_line, print_notice
from archqa.cli.options import JsonOption, KeyOption, RunArgument
from archqa.cli.score_tables import print_key
from archqa.evaluation.threshold_curve import CurvePoint
from archqa.evaluation.what_if import WhatIfResult, settings_from_run, what_if
from archqa.panel.calibration import SelectionQuality


def command(
    run: RunArgument,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="threshold, voters, combiner, operating_point or verify.",
        ),
    ] = None,
    key: KeyOption = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Write the result there, as a new run.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide a run again, from its stored votes. No model is called.

    With a key, the curve over thresholds is shown. `--set voters=` takes the names that this
    command lists ("general expert @ MODEL"), a role alone ("general expert" or general_expert), or
    a model alone. Answers whose evidence changes are put together from the note's own sentences.

    Examples:
      archqa what-if runs/dev
      archqa what-if runs/dev --set threshold=0.4
      archqa what-if runs/dev --set voters="answer first,embedded engine" --out runs/two-voters
      archqa what-if runs/dev --set combiner=combiner.json --set operating_point=recall
    """
    result = what_if(
        run, settings_from_run(run, assign or (), on_ignored=print_notice), key=key, out=out_dir
    )
    if result.key:
        print_key(result.key)
    if as_json:
        print_json(result.as_json())
        return
    changes = f"{result.changed} of {result.cases} cases would rest on other evidence"
    console.print(f"{changes}; {len(result.voters)} voters counted:")
    console.print(", ".join(result.voters))
    _print_scores(result)
    if result.run:
        print_line(result.run)


def _print_scores(result: WhatIfResult) -> None:
    if result.before and result.after:
        console.print(_table(result.before, result.after))
        console.print(_curve_table(result.curve, result.after))
    else:
        print_notice(
            "there is no key beside the cases, so nothing is scored; name it with --key FILE."
        )


def _table(before: SelectionQuality, after: SelectionQuality) -> Table:
    table = number_table("evidence, strict micro, percent", "", "precision", "recall", "F1")
    for name, quality in (("as it was", before), ("what if", after)):
        table.add_row(name, *_cells(quality))
    return table


def _curve_table(curve: Sequence[CurvePoint], chosen: SelectionQuality) -> Table:
    """The curve over thresholds, with the chosen point below it."""
    table = number_table(
        "over thresholds of the combined probability", "above", "precision", "recall", "F1", ""
    )
    table.columns[-1].justify = "left"
    best = max(point.f1 for point in curve)
    for point in curve:
        mark = " best" if point.f1 == best else ""
        table.add_row(f"{point.threshold:.2f}", *_cells(point), _bar(point.f1) + mark)
    table.add_row("chosen", *_cells(chosen), _bar(chosen.f1), style="bold")
    return table


def _cells(quality: CurvePoint | SelectionQuality) -> tuple[str, str, str]:
    return f"{quality.precision:.1f}", f"{quality.recall:.1f}", f"{quality.f1:.1f}"


def _bar(percent: float) -> str:
    return "█" * round(percent / 5)
