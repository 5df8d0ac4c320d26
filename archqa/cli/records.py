"""Opens the record that a command names."""

from archqa import fhir
from archqa.safety.base_urls import is_server_url


def open_record(
    record: str, allow_plain_http: bool | None, profile: str = "archqa"
) -> "fhir.Store | fhir.FhirClient":
    """The store or server. Raises as `fhir.connect` does."""
    allowed = plain_http_allowed(record, allow_plain_http)
    return fhir.connect(record, profile=profile, allow_plain_http=allowed)


def plain_http_allowed(record: str | None, typed: bool | None) -> bool:
    """Whether a record on another machine may be read over plain http: as typed, else as set."""
    if typed is not None or record is None or not is_server_url(record):
        return bool(typed)
    from archqa.settings import load_settings  # Slow to import, and a store needs none.

    return load_settings().allow_plain_http
