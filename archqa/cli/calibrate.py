"""`archqa calibrate RUN`: fits the weight of each voter, from a finished run and its key."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa.cli.console import console, number_table, print_json, print_notice
from archqa.cli.options import JsonOption, KeyOption
from archqa.cli.score_tables import print_key
from archqa.evaluation.calibration import Calibration, calibrate
from archqa.panel.calibration import SelectionQuality


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    key: KeyOption = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="The combiner file; default: combiner.json in the run."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the folds.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit the weights of the voters from the votes in a run. No model is called.

    Examples:
      archqa calibrate runs/dev --out combiner.json
      archqa predict test.json --pipeline panel --set combiner=combiner.json
    """
    calibration = calibrate(run, key=key, out=out_file, seed=seed)
    print_key(calibration.key)
    if as_json:
        print_json(calibration.as_json())
        return
    console.print(_table(calibration))
    path = calibration.path
    print_notice(f"the combiner is in {path}; use it with --set combiner={path}")


def _table(calibration: Calibration) -> Table:
    provenance = calibration.combiner.provenance
    size = f"{provenance.cases} cases, {provenance.sentences} sentences"
    table = number_table(
        f"{size}; strict micro, percent",
        "",
        "weight",
        "precision",
        "recall",
        "F1",
        "calibration error",
    )
    for voter, quality in calibration.per_voter.items():
        weight = calibration.combiner.weights.get(voter)
        weight_cell = "" if weight is None else f"{weight:.2f}"
        table.add_row(voter, weight_cell, *_quality_cells(quality))
    table.add_row(
        "as archqa weighs them (no fit on this run)", "", *_quality_cells(calibration.unfitted)
    )
    table.add_row(
        f"fitted, out-of-fold ({provenance.folds} folds)",
        "",
        *_quality_cells(calibration.out_of_fold),
        style="bold",
    )
    return table


def _quality_cells(quality: SelectionQuality) -> tuple[str, ...]:
    return (
        f"{quality.precision:.1f}",
        f"{quality.recall:.1f}",
        f"{quality.f1:.1f}",
        f"{quality.calibration_error:.3f}",
    )
