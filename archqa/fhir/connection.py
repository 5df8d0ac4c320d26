"""Open a record from a path or a server's address.

What opens a server is in the environment: a token, or the id and the private key of a client that
fetches tokens itself (SMART backend services). Client and store are imported where one is
opened.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.errors import CallerError
from archqa.fhir.profile import ARCHQA, Profile
from archqa.safety.arguments import as_path
from archqa.safety.server_urls import is_server_url

if TYPE_CHECKING:
    from archqa.fhir.client.http_client import FhirClient
    from archqa.fhir.client.smart import BackendService, FixedToken
    from archqa.fhir.record import Record
    from archqa.fhir.store import Store

TOKEN_ENV_VAR = "ARCHQA_FHIR_TOKEN"
"""The environment variable that holds the bearer token for FHIR servers, or `user:password`."""

CLIENT_ID_ENV_VAR = "ARCHQA_FHIR_CLIENT_ID"
"""The environment variable that holds the id of a client of SMART backend services."""

PRIVATE_KEY_ENV_VAR = "ARCHQA_FHIR_PRIVATE_KEY"
"""The environment variable that holds the path of that client's private key."""

_KEY_ID_ENV_VAR = "ARCHQA_FHIR_KEY_ID"
_SCOPE_ENV_VAR = "ARCHQA_FHIR_SCOPE"
_TOKEN_URL_ENV_VAR = "ARCHQA_FHIR_TOKEN_URL"


def checked_location(location: Any) -> str | Path:
    """The URL or path of a record. Raises `CallerError` or `InputError` for what is neither."""
    if isinstance(location, str) and is_server_url(location):
        return location
    return as_path(location, "The record")


def connect(
    location: str | Path,
    *,
    profile: str | Profile = ARCHQA,
    token: str | None = None,
    allow_plain_http: bool = False,
) -> "Store | FhirClient":
    """Open the record at a path or URL. `token` defaults to what the environment has for a server.

    Raises `InputError` if there is no record at the path, and `CallerError` for plain http to
    another machine unless `allow_plain_http`, or for a URL with a password or a query; for a client
    with a private key also as `read_signing_key`. The first search contacts a server, not this.
    """
    location = checked_location(location)
    if isinstance(location, str) and is_server_url(location):
        from archqa.fhir.client.http_client import FhirClient

        access = token or access_from_environment(allow_plain_http=allow_plain_http)
        return FhirClient(location, token=access, allow_plain_http=allow_plain_http)
    from archqa.fhir.store import Store

    return Store.open(location, profile)


def tolerate_refusals(record: "Record") -> "Record":
    """Return a record whose refused types have no resources: one on a server as `PartialRecord`."""
    from archqa.fhir.store import LocalRecord

    if isinstance(record, LocalRecord):
        return record
    from archqa.fhir.client.http_client import FhirClient
    from archqa.fhir.client.partial_client import PartialClient

    return PartialClient(record) if isinstance(record, FhirClient) else record


def access_from_environment(
    *, allow_plain_http: bool
) -> "FixedToken | BackendService | None":
    """Return the token, or the client that fetches tokens; None if there is neither.

    Raises `CallerError` for variables that contradict each other, and as `read_signing_key`.
    """
    from archqa.fhir.client.smart import (
        DEFAULT_SCOPE,
        BackendService,
        FixedToken,
        read_signing_key,
    )

    text = os.environ.get(TOKEN_ENV_VAR)
    token = FixedToken(text) if text else None
    client_id = os.environ.get(CLIENT_ID_ENV_VAR)
    key_path = os.environ.get(PRIVATE_KEY_ENV_VAR)
    if not client_id and not key_path:
        return token
    if token is not None:
        problem = f"{TOKEN_ENV_VAR} and {CLIENT_ID_ENV_VAR} contradict each other"
        raise CallerError(f"{problem}.\nUnset one of them.")
    if not client_id or not key_path:
        problem = f"Of {CLIENT_ID_ENV_VAR} and {PRIVATE_KEY_ENV_VAR} only one is set"
        raise CallerError(
            f"{problem}.\nSet both: a client's id and the file of its private key."
        )
    key = read_signing_key(Path(key_path), os.environ.get(_KEY_ID_ENV_VAR) or None)
    return BackendService(
        client_id,
        key,
        scope=os.environ.get(_SCOPE_ENV_VAR) or DEFAULT_SCOPE,
        token_url=os.environ.get(_TOKEN_URL_ENV_VAR) or None,
        allow_plain_http=allow_plain_http,
    )
