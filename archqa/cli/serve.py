"""`archqa serve [RUNS]`: the report's pages in a browser, and a form to ask questions."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from archqa.cli.console import (
    NO_TOKEN_WARNING,
    configure_logging,
    print_line,
    print_notice,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    BaseUrlOption,
    ConfigOption,
    NoTokenOption,
    VerboseOption,
    command_settings,
)
from archqa.errors import MissingExtra
from archqa.fhir import connect
from archqa.runs.model_server import check_model_server
from archqa.safety.local_server import (
    check_protected,
    listen,
    new_token,
    run_server,
    server_url,
    url_with_token,
)
from archqa.safety.server_urls import is_loopback, is_server_url


def command(
    runs: Annotated[
        list[Path] | None,
        Argument(metavar="[RUNS]", help="Folders of runs, or runs.  [default: runs]"),
    ] = None,
    host: Annotated[
        str, Option(help="The address to listen on; default: this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any free port.")] = 8484,
    record: Annotated[
        str | None,
        Option(help="A FHIR store or server whose patients may be asked about."),
    ] = None,
    key: Annotated[
        Path | None,
        Option(help="The key; default: the one next to each case file."),
    ] = None,
    annotations: Annotated[
        Path | None,
        Option(
            help="The folder for reviews.  [default: annotations/ next to the runs]"
        ),
    ] = None,
    model: Annotated[
        str | None,
        Option(help="The model that answers; default: the embedded engine."),
    ] = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    no_token: NoTokenOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show runs in a browser, review answers, and ask questions about a note or a patient.

    The printed address holds a token; a browser that opened it is let in by a cookie from then on.

    Examples:
      archqa serve
      archqa serve runs --record mimic.db
      archqa serve runs --host 0.0.0.0
    """
    configure_logging(verbose=verbose)
    try:
        import uvicorn  # noqa: F401

        from archqa.web import WebConfig, create_app
    except ImportError:
        raise MissingExtra("The web part (FastAPI, uvicorn)", "web") from None
    check_protected(host, has_token=not no_token)
    settings = command_settings(
        config,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
    )
    # Refuse now what every question would be refused for.
    if settings.has_model:
        check_model_server(settings, settings.base_url)
    if record is not None and is_server_url(record):
        connect(record, allow_plain_http=settings.allow_plain_http).close()
    token = None if no_token else new_token()
    if not runs:
        runs = [Path("runs")]
        runs[0].mkdir(mode=0o700, exist_ok=True)  # Questions need no run.
    web_config = WebConfig(runs, record, key, annotations)
    app = create_app(
        web_config, token=token, on_loopback=is_loopback(host), settings=settings
    )
    listening = listen(host, port)
    if no_token:
        print_notice(NO_TOKEN_WARNING)
    print_notice("the pages hold record text; press Ctrl+C to end.")
    print_line(url_with_token(server_url(host, listening), token))
    run_server(app, listening, lifespan=True)
