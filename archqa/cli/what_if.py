"""`archqa what-if RUN`: decides again from the votes of a run, with other settings."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa.cli.console import console, number_table, print_json, print_line, print_notice
from archqa.cli.options import JsonOption, KeyOption, RunArgument
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

    Answers whose evidence changes are put together from the note's own sentences.

    Examples:
      archqa what-if runs/dev --set threshold=0.4
      archqa what-if runs/dev --set voters="answer first,embedded engine" --out runs/two-voters
      archqa what-if runs/dev --set combiner=combiner.json --set operating_point=recall
    """
    result = what_if(
        run, settings_from_run(run, assign or (), on_ignored=print_notice), key=key, out=out_dir
    )
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
    else:
        print_notice(
            "there is no key beside the cases, so nothing is scored; name it with --key FILE."
        )


def _table(before: SelectionQuality, after: SelectionQuality) -> Table:
    table = number_table("evidence, strict micro, percent", "", "precision", "recall", "F1")
    for name, quality in (("as it was", before), ("what if", after)):
        table.add_row(
            name, f"{quality.precision:.1f}", f"{quality.recall:.1f}", f"{quality.f1:.1f}"
        )
    return table
