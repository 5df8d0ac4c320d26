"""`archqa compare RUN RUN`: is one run better than another, or was it luck?"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa.cli.console import console, print_json
from archqa.evaluation.scoring import compare_runs


def command(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="Another, of the same cases.")],
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the case file.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    method: Annotated[
        str, typer.Option(help="paired-bootstrap or approximate-randomisation.")
    ] = "paired-bootstrap",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two runs of the same cases by a paired test over cases.

    Example:
      archqa compare runs/one runs/two --metric strict_micro_f1
    """
    found = compare_runs(
        first, second, key=key, metrics=tuple(metric) if metric else None, method=method
    )
    if as_json:
        print_json({name: each._asdict() for name, each in found.items()})
        return
    table = Table(title=f"{first} minus {second}, {method}", title_justify="left")
    for name in ("score", "difference", "95 % interval", "p"):
        table.add_column(name, justify="left" if name == "score" else "right")
    for name, each in found.items():
        interval = f"{each.low:+.1f} to {each.high:+.1f}"
        table.add_row(name, f"{each.difference:+.1f}", interval, f"{each.p_value:.3f}")
    console.print(table)
