"""Open a record from a path or a server's address."""

import os
from pathlib import Path
from typing import Any

from archqa.core.arguments import as_path
from archqa.errors import CallerError
from archqa.fhir.client.http_client import FhirClient
from archqa.fhir.profile import ARCHQA, Profile
from archqa.fhir.store import Store

TOKEN_ENV_VAR = "ARCHQA_FHIR_TOKEN"
"""The environment variable that holds the bearer token for FHIR servers."""


def checked_location(location: Any) -> str | Path:
    """The URL or path of a record. Raises `CallerError` or `InputError` for what is neither."""
    if isinstance(location, str) and location.startswith(("http://", "https://")):
        return location
    return as_path(location, "The record")


def connect(
    location: str | Path, *, profile: str | Profile = ARCHQA, token: str | None = None
) -> Store | FhirClient:
    """Open the record at a path or URL. `token` defaults to `ARCHQA_FHIR_TOKEN` for a server.

    Raises `InputError` if there is no record at the path, `CallerError` for a URL with a query. The
    first search contacts a server, not this.
    """
    location = checked_location(location)
    if isinstance(location, str):
        _check_no_query(location)
        return FhirClient(location, token=token or os.environ.get(TOKEN_ENV_VAR) or None)
    return Store.open(location, profile)


def _check_no_query(url: str) -> None:
    """Refuse the address with a token that a server prints: it would get into records of runs."""
    if "?" in url:
        raise CallerError(
            "The address of a FHIR server ends before its '?'.\n"
            f"Set {TOKEN_ENV_VAR} to the token, and leave it out of the address."
        )
