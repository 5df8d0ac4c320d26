"""Which `Content-Type` a request to the FHIR server must have.

A browser sends `text/plain` and forms to any server for any site without asking: as writes they are
refused. Source: hl7.org/fhir/R4/http.html#mime-type.
"""

from archqa.fhir.values.formats import is_our_version, split_media_type
from archqa.safety.local_server import Refusal, Scope, header_values

_WRITE_TYPES: tuple[str, ...] = ("application/fhir+json", "application/json")
_SEARCH_TYPES: tuple[str, ...] = ("application/x-www-form-urlencoded",)


def refusal_of_content_type(scope: Scope) -> Refusal | None:
    """Return why the body of a request cannot be taken; None if it can, or there is none."""
    if scope["method"] != "POST":
        return None
    is_search = _is_search(scope["path"])
    is_operation = _is_operation(scope["path"])
    if (is_search or is_operation) and _has_no_body(scope):
        return None
    allowed = _SEARCH_TYPES if is_search else _WRITE_TYPES
    if is_operation:  # It reads: a form is as harmless as the same parameters in a URL.
        allowed = (*_WRITE_TYPES, *_SEARCH_TYPES)
    media_type, version = _media_type(scope)
    if media_type in allowed and is_our_version(version):
        return None
    return Refusal(415, f"Send the body with Content-Type: {' or '.join(allowed)}.")


def _is_search(path: str) -> bool:
    """Whether a POST to the path is a search; a path with parameters in it counts as a write."""
    return path.rstrip("/").endswith("/_search") and "&" not in path


def _is_operation(path: str) -> bool:
    return path.rpartition("/")[2].startswith("$")


def _has_no_body(scope: Scope) -> bool:
    is_chunked = bool(header_values(scope, b"transfer-encoding"))
    return not is_chunked and set(header_values(scope, b"content-length")) <= {"0"}


def _media_type(scope: Scope) -> tuple[str, str]:
    """Return the declared type and FHIR version; empty if it is not one type."""
    content_types = header_values(scope, b"content-type")
    return split_media_type(content_types[0]) if len(content_types) == 1 else ("", "")
