"""`archqa compare RUN RUN`: tests whether the difference between two runs is more than chance."""

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import console, number_table, print_json
from archqa.cli.options import JsonOption, KeyOption
from archqa.evaluation.scoring import compare_runs


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    baseline: Annotated[
        Path, typer.Argument(metavar="RUN", help="Another run folder, of the same cases.")
    ],
    key: KeyOption = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")] = None,
    method: Annotated[
        str, typer.Option(help="paired-bootstrap or approximate-randomisation.")
    ] = "paired-bootstrap",
    as_json: JsonOption = False,
) -> None:
    """Compare two runs of the same cases by a paired test over cases.

    Example:
      archqa compare runs/one runs/two --metric strict_micro_f1
    """
    metrics = tuple(metric) if metric else None
    tests = compare_runs(run, baseline, key=key, metrics=metrics, method=method)
    if as_json:
        print_json({name: test._asdict() for name, test in tests.items()})
        return
    table = number_table(
        f"{run} minus {baseline}, {method}", "score", "difference", "95 % interval", "p"
    )
    for name, test in tests.items():
        interval = f"{test.low:+.1f} to {test.high:+.1f}"
        table.add_row(name, f"{test.difference:+.1f}", interval, f"{test.p_value:.3f}")
    console.print(table)
