"""`archqa report RUN [RUN...]`: runs as one HTML page, with the evidence marked where it stands."""

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_notice
from archqa.report import write_report


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders; two are compared.")
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Default: report.html in the (first) run's folder."
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the case file.")
    ] = None,
    without_text: Annotated[
        bool,
        typer.Option(
            "--without-text",
            help="Leave out every word of the record: numbers, ids and labels stay.",
        ),
    ] = False,
) -> None:
    """Write one HTML file with the answers, their evidence, confidence and errors.

    The file needs nothing but a browser: no script, no other file, no network. It holds record text unless
    --without-text is given. Of two runs, the differences and a paired test come first.

    Examples:
      archqa report runs/dev
      archqa report runs/one runs/two --out comparison.html
      archqa report runs/dev --without-text --out to-publish.html
    """
    place = write_report(runs, out_file, key=key, text=not without_text)
    if not without_text:
        print_notice("the page holds record text: keep it as you would keep the record.")
    print(place)
