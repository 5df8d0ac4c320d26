"""`archqa compare RUN RUN`: tests whether the difference between two runs is more than chance."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Argument, Option

from archqa import tasks
from archqa.cli.console import console, number_table, print_json
from archqa.cli.options import JsonOption, KeyOption, RunArgument
from archqa.cli.score import print_key
from archqa.evaluation.comparison import (
    METHODS,
    RESAMPLES,
    PairedDifference,
    compare_runs,
)
from archqa.runs.run import Run
from archqa.tasks.key_provenance import KeyProvenance

_SMALLEST_P_VALUE = 0.001
"""A smaller one is shown as less than this: none is 0."""


def command(
    run: RunArgument,
    baseline: Annotated[
        Path,
        Argument(metavar="RUN", help="Another run folder, of the same cases."),
    ],
    key: KeyOption = None,
    metric: Annotated[
        list[str] | None, Option(help="Only this metric; repeatable.")
    ] = None,
    method: Annotated[
        str, Option(help="approximate-randomisation or paired-bootstrap.")
    ] = METHODS[0],
    resamples: Annotated[
        int,
        Option(min=100, metavar="N", help="Random swaps, or resamples of the cases."),
    ] = RESAMPLES,
    seed: Annotated[int, Option(min=0, metavar="N", help="Of the resampling.")] = 12345,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs of the same cases by a paired test over cases.

    Example:
      archqa compare runs/one runs/two --metric strict_micro_f1
    """
    keys: list[KeyProvenance] = []
    tests = compare_runs(
        run,
        baseline,
        key=key,
        metrics=tuple(metric) if metric else None,
        method=method,
        resamples=resamples,
        seed=seed,
        on_key=keys.append,
    )
    for provenance in dict.fromkeys(keys):
        print_key(provenance)
    if as_json:
        print_json({name: test._asdict() for name, test in tests.items()})
        return
    decimals = tasks.find(Run.open(run).manifest.task).display.decimals
    console.print(_table(f"{run} minus {baseline}", tests, decimals))
    any_test = next(iter(tests.values()))
    sampling = f"{any_test.resamples:,} resamples, seed {any_test.seed}"
    for line in (
        f"p: {any_test.method} over {any_test.n:,} paired cases, two-sided; {sampling}.",
        f"p (Holm): adjusted for the {len(tests)} scores of this table.",
        "95 % interval: studentised, from the jackknife over cases.",
        f"detectable: the smallest true difference that {any_test.n:,} such cases show at p < .05",
        "with a power of .8 (before Holm's adjustment).",
    ):
        console.print(f"  {line}", style="dim")


def _table(title: str, tests: Mapping[str, PairedDifference], decimals: int) -> Table:
    columns = ("score", "difference", "95 % interval", "p", "p (Holm)", "detectable")
    table = number_table(title, *columns)
    for name, test in tests.items():
        detectable = test.detectable_difference
        table.add_row(
            name,
            f"{test.difference:+.{decimals}f}",
            f"{test.low:+.{decimals}f} to {test.high:+.{decimals}f}",
            _p_value(test.p_value),
            _p_value(test.adjusted_p_value),
            "-" if detectable is None else f"{detectable:.{decimals}f}",
        )
    return table


def _p_value(value: float) -> str:
    if value < _SMALLEST_P_VALUE:
        return f"< {_SMALLEST_P_VALUE}"
    return f"{value:.3f}"
