"""`archqa what-if RUN`: the same votes, decided otherwise."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa.cli.console import console, print_json, print_notice
from archqa.evaluation.what_if import WhatIfResult, settings_from_run, what_if


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="threshold, voters, combiner, operating_point or verify.",
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the case file.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Leave the result there, as a run of its own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide a run again, from its stored votes. No model is called.

    Answers whose evidence changes are put together from the note's own sentences.

    Examples:
      archqa what-if runs/dev --set threshold=0.4
      archqa what-if runs/dev --set voters="answer first,embedded engine" --out runs/two-voters
      archqa what-if runs/dev --set combiner=combiner.json --set operating_point=recall
    """
    found = what_if(run, settings_from_run(run, assign or ()), key=key, out=out_dir)
    if as_json:
        print_json(found.as_json())
        return
    console.print(
        f"{found.changed} of {found.cases} cases would rest on other evidence; {len(found.voters)} voters counted:"
    )
    console.print(", ".join(found.voters), markup=False)
    if found.before and found.after:
        console.print(_table(found))
    else:
        print_notice(
            "there is no key beside the cases, so nothing is scored; name it with --key FILE."
        )
    if found.run:
        print(found.run)


def _table(found: WhatIfResult) -> Table:
    table = Table(title="evidence, strict micro, percent", title_justify="left")
    for name in ("", "precision", "recall", "F1"):
        table.add_column(name, justify="right" if name else "left")
    for name, held in (("as it was", found.before), ("what if", found.after)):
        if held:
            table.add_row(name, f"{held.precision:.1f}", f"{held.recall:.1f}", f"{held.f1:.1f}")
    return table
