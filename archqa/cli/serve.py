"""`archqa serve [RUNS]`: the report's pages, live, and a form to ask a question."""

import errno
import ipaddress
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from archqa.cli.console import configure_logging, print_notice
from archqa.errors import CallerError, MissingExtra
from archqa.settings import load_settings


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]", help="Folders of runs, or runs.  [default: runs]"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Elsewhere than on loopback, a token is asked for.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8484,
    record: Annotated[
        str | None, typer.Option(help="A FHIR store or server whose patients may be asked about.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside each case file.")
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(help="Where reviews are saved.  [default: annotations/ beside the runs]"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that answers; default: the embedded engine.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more on stderr; never record text.")
    ] = False,
) -> None:
    """Show runs in a browser, review answers, and ask questions about a note or a patient.

    Examples:
      archqa serve
      archqa serve runs --record mimic.db
      archqa serve runs --host 0.0.0.0
    """
    configure_logging(verbose=verbose)
    try:
        import uvicorn

        from archqa.web.app import WebConfig, create_app, new_token
    except ImportError:
        raise MissingExtra("The web part (FastAPI, uvicorn)", "web") from None
    settings = load_settings(config, {"model": model, "base_url": base_url})
    token = None if _is_loopback(host) else new_token()
    app = create_app(
        WebConfig(_folders(runs), record, key, annotations), token=token, settings=settings
    )
    listening = _listen(host, port)
    address = (
        f"http://{_shown(host)}:{listening.getsockname()[1]}/{f'?token={token}' if token else ''}"
    )
    print_notice("the pages hold record text; press Ctrl+C to end.")
    print(address, flush=True)
    # No access log: addresses may hold case ids, and what is posted is nobody else's business.
    server: Any = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on")
    )
    server.run(sockets=[listening])


def _folders(runs: list[Path] | None) -> list[Path]:
    """What was named, else `runs`, which is made if there is none yet: the form works without a run."""
    if runs:
        return runs
    Path("runs").mkdir(mode=0o700, exist_ok=True)
    return [Path("runs")]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises `CallerError` where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        why = f"Port {port} is taken." if taken else f"{host}:{port} cannot be listened on."
        raise CallerError(
            f"{why}\nName another with --host and --port; --port 0 takes any that is free."
        ) from None
    return listening
