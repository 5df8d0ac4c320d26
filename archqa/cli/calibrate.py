"""`archqa calibrate RUN`: what each voter's word is worth, from a finished run and its key."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from archqa.cli.console import console, print_json, print_notice
from archqa.evaluation.calibration import Calibration, calibrate
from archqa.panel.calibration import SelectionQuality


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the case file.")
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="Where the combiner goes; default: combiner.json in the run."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the folds.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the weights of the voters from the votes in a run. No model is called.

    Examples:
      archqa calibrate runs/dev --out combiner.json
      archqa predict test.json --pipeline panel --set combiner=combiner.json
    """
    found = calibrate(run, key=key, out=out_file, seed=seed)
    if as_json:
        print_json(found.as_json())
        return
    console.print(_table(found))
    print_notice(f"the combiner is in {found.path}; use it with --set combiner={found.path}")


def _table(found: Calibration) -> Table:
    told = found.combiner.provenance
    table = Table(
        title=f"{told.cases} cases, {told.sentences} sentences; strict micro, percent",
        title_justify="left",
    )
    for name in ("", "weight", "precision", "recall", "F1", "calibration error"):
        table.add_column(name, justify="right" if name else "left")
    for voter, held in found.per_voter.items():
        weight = found.combiner.weights.get(voter)
        table.add_row(escape(voter), "" if weight is None else f"{weight:.2f}", *_cells(held))
    table.add_row("all alike (no fit)", "", *_cells(found.unfitted))
    table.add_row(
        f"fitted, on cases held out ({told.folds} folds)",
        "",
        *_cells(found.out_of_fold),
        style="bold",
    )
    return table


def _cells(held: SelectionQuality) -> tuple[str, ...]:
    return (
        f"{held.precision:.1f}",
        f"{held.recall:.1f}",
        f"{held.f1:.1f}",
        f"{held.calibration_error:.3f}",
    )
