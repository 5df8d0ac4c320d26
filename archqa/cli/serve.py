"""`archqa serve [RUNS]`: the report's pages in a browser, and a form to ask questions."""

import errno
import ipaddress
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from archqa.cli.console import configure_logging, print_notice
from archqa.cli.options import AllowPlainHttpOption, BaseUrlOption, ConfigOption, VerboseOption
from archqa.core.base_urls import is_server_url
from archqa.errors import CallerError, MissingExtra
from archqa.fhir import connect
from archqa.runs.backends import check_model_server
from archqa.settings import Settings, load_settings


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]", help="Folders of runs, or runs.  [default: runs]"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; a token is required unless loopback.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8484,
    record: Annotated[
        str | None, typer.Option(help="A FHIR store or server whose patients may be asked about.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one next to each case file.")
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(help="The folder for reviews.  [default: annotations/ next to the runs]"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that answers; default: the embedded engine.")
    ] = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
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
    options = {"model": model, "base_url": base_url, "allow_plain_http": allow_plain_http}
    settings = load_settings(config, options)
    _check_addresses(settings, record)
    token = None if _is_loopback(host) else new_token()
    web_config = WebConfig(_run_folders(runs), record, key, annotations)
    app = create_app(web_config, token=token, settings=settings)
    listening = _listen(host, port)
    print_notice("the pages hold record text; press Ctrl+C to end.")
    print(_url(host, listening.getsockname()[1], token), flush=True)
    # No access log: URLs may contain case ids, and posted questions are private.
    server: Any = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on")
    )
    server.run(sockets=[listening])


def _check_addresses(settings: Settings, record: str | None) -> None:
    """Refuse now what every question would be refused for. Raises `CallerError`."""
    if settings.has_model:
        check_model_server(settings, settings.base_url)
    if record is not None and is_server_url(record):
        connect(record, allow_plain_http=settings.allow_plain_http).close()


def _run_folders(runs: list[Path] | None) -> list[Path]:
    """Return the folders given, else `runs`, created if absent: the form works without a run."""
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


def _url(host: str, port: int, token: str | None) -> str:
    url_host = f"[{host}]" if ":" in host else host
    url = f"http://{url_host}:{port}/"
    return f"{url}?token={token}" if token else url


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `CallerError` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = f"{host}:{port} cannot be listened on."
        if error.errno == errno.EADDRINUSE:
            reason = f"Port {port} is taken."
        raise CallerError(
            f"{reason}\nName another with --host and --port; --port 0 takes any that is free."
        ) from None
    return listening
