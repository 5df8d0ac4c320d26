"""`archqa merge RUN RUN…`: joins the parts of a run that were made with --shard."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from archqa.cli.console import print_json, print_line, print_notice
from archqa.cli.options import RunJsonOption
from archqa.runs.merging import merge


def command(
    runs: Annotated[
        list[Path],
        Argument(help="The folders of the parts, in any order.", metavar="RUN..."),
    ],
    out: Annotated[
        Path | None,
        Option(help="The folder of the merged run; default: a new one in runs/."),
    ] = None,
    data: Annotated[Path | None, Option(help="The case file, if it has moved.")] = None,
    partial: Annotated[
        bool, Option("--partial", help="Merge although cases are missing.")
    ] = False,
    as_json: RunJsonOption = False,
) -> None:
    """Merge the parts of one run, in the order of the case file. The parts stay as they are.

    The parts must have the same cases, settings, pipeline and prompts, share no case and together
    have all of them.

    Examples:
      archqa predict cases.jsonl --shard 1/2 --out runs/one     # on one machine
      archqa predict cases.jsonl --shard 2/2 --out runs/two     # on another
      archqa merge runs/one runs/two --out runs/whole
    """
    run = merge(runs, out, data=data, partial=partial)
    if not run.complete:
        progress = (
            f"{len(run.records)} of {len(run.manifest.case_ids)} cases have ended"
        )
        print_notice(f"{progress}; the rest is missing.")
    if as_json:
        print_json(run.summary())
    else:
        print_line(run.path)
