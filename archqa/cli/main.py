"""`archqa`: the commands, and what becomes of an error."""

import sys

import typer

import archqa
from archqa.cli import (
    ablate,
    ask,
    batch,
    cache,
    calibrate,
    cases,
    compare,
    config,
    doctor,
    evidence,
    evidence_links,
    export,
    fhir,
    listing,
    merge,
    predict,
    report,
    score,
    serve,
    show,
    tune,
    what_if,
)
from archqa.cli.console import print_error
from archqa.errors import ArchqaError

EPILOG = "First steps:  archqa predict mini   then   archqa score RUN   and   archqa show RUN CASE"

app = typer.Typer(
    name="archqa",
    help="Answers questions from a patient's own record and shows, for every claim, the evidence it rests on.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (
    predict,
    score,
    compare,
    show,
    report,
    serve,
    ask,
    export,
    merge,
    calibrate,
    what_if,
    tune,
    ablate,
    listing,
    doctor,
):
    app.command(module.NAME)(module.command)
app.add_typer(cases.app, name="cases")
app.add_typer(batch.app, name="batch")
app.add_typer(cache.app, name="cache")
evidence.app.command("links")(evidence_links.command)
app.add_typer(evidence.app, name="evidence")
app.add_typer(fhir.app, name="fhir")
app.add_typer(config.app, name="config")


@app.callback(invoke_without_command=True)
def main(
    version: bool = typer.Option(False, "--version", help="Print the version and end."),
) -> None:
    """Answers questions from a patient's own record and shows, for every claim, the evidence it rests on."""
    if version:
        typer.echo(f"archqa {archqa.__version__}")
        raise typer.Exit


def run() -> None:
    """The command line's entry: foreseen errors become one message and an exit code, never a traceback."""
    try:
        app()
    except ArchqaError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("archqa: interrupted; a run goes on with --resume", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
