"""Open a record from a path or a server's address."""

import os
from pathlib import Path
from typing import Any

from archqa.fhir.client.http_client import FhirClient
from archqa.fhir.profile import ARCHQA, Profile
from archqa.fhir.store import Store
from archqa.safety.arguments import as_path
from archqa.safety.base_urls import is_server_url

TOKEN_ENV_VAR = "ARCHQA_FHIR_TOKEN"
"""The environment variable that holds the bearer token for FHIR servers, or `user:password`."""


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
) -> Store | FhirClient:
    """Open the record at a path or URL. `token` defaults to `ARCHQA_FHIR_TOKEN` for a server.

    Raises `InputError` if there is no record at the path, and `CallerError` for plain http to
    another machine unless `allow_plain_http`, or for a URL with a password or a query. The first
    search contacts a server, not this.
    """
    location = checked_location(location)
    if isinstance(location, str) and is_server_url(location):
        token = token or os.environ.get(TOKEN_ENV_VAR) or None
        return FhirClient(location, token=token, allow_plain_http=allow_plain_http)
    return Store.open(location, profile)
