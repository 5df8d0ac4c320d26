"""The formats of FHIR that `_format` and media types name.

Source: hl7.org/fhir/R4/http.html#mime-type.
"""

from enum import StrEnum

FHIR_JSON = "application/fhir+json"
JSON_TYPES = (FHIR_JSON, "application/json", "text/json")
"""Media types that the server can send, the preferred one first."""

JSON_FORMATS = frozenset({"json", "application/json+fhir", *JSON_TYPES})
_OTHER_FORMATS = frozenset(
    {
        *("xml", "text/xml", "application/xml", "application/fhir+xml", "application/xml+fhir"),
        *("ttl", "turtle", "text/turtle", "application/fhir+turtle", "application/x-turtle"),
        *("html", "text/html", "ndjson", "application/ndjson", "application/fhir+ndjson"),
    }
)
_FHIR_VERSIONS = {"", "4.0", "4.0.1"}


class FormatKind(StrEnum):
    """What a `_format` asks for: JSON, another format of FHIR's, or nothing that FHIR knows."""

    JSON = "json"
    OTHER = "other"
    UNKNOWN = "unknown"


def read_format(value: str) -> FormatKind:
    """Return what a `_format` asks for; without a value it asks for the default.

    An unescaped `+` arrives as a blank.
    """
    media_type, version = split_media_type(value.strip().replace(" +", "+"))
    name = media_type.replace(" ", "+")
    if name in {"", *JSON_FORMATS}:
        return FormatKind.JSON if version in _FHIR_VERSIONS else FormatKind.OTHER
    return FormatKind.OTHER if name in _OTHER_FORMATS else FormatKind.UNKNOWN


def split_media_type(text: str) -> tuple[str, str]:
    """Return a media type in lower case, and its `fhirVersion`, empty if there is none."""
    media_type, *parameters = text.split(";")
    version = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "fhirversion":
            version = value.strip().strip('"')
    return media_type.strip().lower(), version


def is_our_version(version: str) -> bool:
    """Whether a `fhirVersion` is R4, or none is named."""
    return version in _FHIR_VERSIONS
