"""`archqa report RUN [RUN...]`: one HTML page with the runs, their numbers and their evidence."""

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_line, print_notice
from archqa.cli.options import KeyOption
from archqa.report import write_report


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders; two are compared."),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Default: report.html in the (first) run's folder.",
        ),
    ] = None,
    key: KeyOption = None,
    without_text: Annotated[
        bool,
        typer.Option(
            "--without-text",
            help="Leave out all text of the record: numbers, ids and labels stay.",
        ),
    ] = False,
) -> None:
    """Write one HTML file with the answers, their evidence, confidence and errors.

    The file needs nothing but a browser: no script, no other file, no network. It contains record
    text unless --without-text is given. A report of two runs starts with their differences and a
    paired test.

    Examples:
      archqa report runs/dev
      archqa report runs/one runs/two --out comparison.html
      archqa report runs/dev --without-text --out to-publish.html
    """
    path = write_report(runs, out_file, key=key, text=not without_text)
    if not without_text:
        print_notice(
            "the page holds record text: protect it as you protect the record."
        )
    print_line(path)
