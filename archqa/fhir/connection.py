"""A record by one word: a file, or a server's address."""

import os
from pathlib import Path

from archqa.fhir.client.http_client import FhirClient
from archqa.fhir.profile import ARCHQA, Profile
from archqa.fhir.store import Store

TOKEN_ENV_VAR = "ARCHQA_FHIR_TOKEN"
"""The environment variable that holds the bearer token for FHIR servers."""


def connect(
    place: str | Path, *, ways: str | Profile = ARCHQA, token: str | None = None
) -> Store | FhirClient:
    """The record at a path or URL. Without `token`, `ARCHQA_FHIR_TOKEN` is used for a server.

    Raises `InputError` if there is no record at the path. A server is not asked before the first search.
    """
    if isinstance(place, str) and place.startswith(("http://", "https://")):
        return FhirClient(place, token=token or os.environ.get(TOKEN_ENV_VAR) or None)
    return Store.open(place, ways)
