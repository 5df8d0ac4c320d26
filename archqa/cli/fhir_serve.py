"""`archqa fhir serve`: a record over HTTP."""

import os
from pathlib import Path
from typing import Annotated

import typer

from archqa import fhir
from archqa.cli.console import NO_TOKEN_WARNING, print_line, print_notice
from archqa.cli.options import NoTokenOption, ProfileOption
from archqa.errors import CallerError
from archqa.fhir.connection import TOKEN_ENV_VAR
from archqa.safety.local_access import check_token, new_token
from archqa.safety.local_server import (
    check_protected,
    listen,
    require_uvicorn,
    server_url,
    url_with_token,
)


def serve(
    store: Annotated[Path, typer.Argument(help="A record made by fhir load.")],
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    host: Annotated[
        str, typer.Option(help="The address to listen on; default: this machine alone.")
    ] = "127.0.0.1",
    path: Annotated[str, typer.Option(help="The path of the record on the server.")] = "/fhir",
    profile: ProfileOption = "archqa",
    writes: Annotated[
        fhir.WriteMode, typer.Option(help="What happens to writes; apply keeps them in memory.")
    ] = fhir.WriteMode.READ_ONLY,
    audit: Annotated[Path | None, typer.Option(help="Log every write to this file.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token of your choice; other users may see it in the list of processes, so "
            "rather set ARCHQA_FHIR_TOKEN.  [default: a random one, printed in the address]"
        ),
    ] = None,
    no_token: NoTokenOption = False,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Let pages of this site read the record too, with the token (repeatable).",
        ),
    ] = None,
) -> None:
    """Serve a record over HTTP, to any FHIR client that presents the token.

    A client sends it as 'Authorization: Bearer TOKEN', or ?token=TOKEN once and then the cookie;
    archqa itself takes it from ARCHQA_FHIR_TOKEN.

    Examples:
      archqa fhir serve record.db --port 8080 --profile hapi
      ARCHQA_FHIR_TOKEN=... archqa ask QUESTION --record http://127.0.0.1:8080/fhir --patient ID
    """
    from archqa.fhir.server.application import serve as serve_http
    from archqa.safety.cross_origin import check_origin

    require_uvicorn("The FHIR server (uvicorn)", "server")
    own_token = _own_token(token, no_token=no_token)
    origins = [check_origin(origin) for origin in cors or ()]
    check_protected(host, has_token=not no_token)
    record = _open_record(store, profile, writes)
    writer = fhir.Writer(record, writes, _open_audit_log(audit))
    listening = listen(host, port)
    base = server_url(host, listening, f"/{path.strip('/')}")
    print_notice(f"serving {store} at {base} ({profile}, {writes.value}); end with Ctrl-C")
    served_token = None if no_token else own_token or new_token()
    print_notice(_who_may_read(own_token, no_token=no_token))
    print_line(base if own_token else url_with_token(base, served_token))
    service = fhir.FhirService(record, base, writer)
    serve_http(service, host=host, path=path, token=served_token, listening=listening, cors=origins)


def _own_token(token: str | None, *, no_token: bool) -> str | None:
    """Return the token that the user chose, by option or environment; None if there is none."""
    if no_token and token:
        raise CallerError("--token and --no-token contradict each other.\nLeave one of them away.")
    chosen = token or os.environ.get(TOKEN_ENV_VAR)
    return check_token(chosen) if chosen and not no_token else None


def _open_record(path: Path, profile: str, mode: fhir.WriteMode) -> fhir.Store | fhir.Overlay:
    """Open a record and read from it once: damage is reported before anything is served."""
    store = fhir.Store.open(path, profile)
    store.counts()
    return fhir.Overlay.over(store) if mode is fhir.WriteMode.APPLY else store


def _open_audit_log(path: Path | None) -> fhir.AuditLog | None:
    """Create the log of writes, if one is asked for, before the first write needs it."""
    if path is None:
        return None
    audit_log = fhir.AuditLog(path)
    audit_log.create()
    return audit_log


def _who_may_read(own_token: str | None, *, no_token: bool) -> str:
    if no_token:
        return NO_TOKEN_WARNING
    source = "you chose" if own_token else "is in the address below"
    return f"clients need the token that {source}; archqa takes it from {TOKEN_ENV_VAR}"
