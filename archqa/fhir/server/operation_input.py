"""The parameters of an operation: in the URL, in a form, or in a Parameters resource.

Sources: hl7.org/fhir/R4/operations.html#executing, parameters.html.
"""

import json
from collections.abc import Callable
from typing import Any

from archqa.fhir.outcome import FhirError
from archqa.fhir.server.response import Headers
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import MAX_PARAMETERS, Params, escape, parse_query_string

_FORM = "application/x-www-form-urlencoded"


def operation_params(url_params: Params, body: str, headers: Headers) -> Params:
    """Return the parameters of the URL and of the body. Raises `FhirError` with every mistake."""
    if not body.strip():
        return url_params
    if _is_form(body, headers):
        return [*url_params, *parse_query_string(body)]
    return [*url_params, *_params_of_resource(body)]


def _is_form(body: str, headers: Headers) -> bool:
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type:
        return content_type == _FORM
    return not body.lstrip().startswith("{")


def _params_of_resource(body: str) -> Params:
    try:
        resource = parse_request_body(body)
    except InvalidBody as error:
        raise FhirError(f"The body {error}") from None
    if not isinstance(resource, dict) or resource.get("resourceType") != "Parameters":
        raise FhirError("The body must be a Parameters resource, or a form.")
    parts = resource.get("parameter", [])
    if not isinstance(parts, list):
        raise FhirError("parameter must be a list.")
    if len(parts) > MAX_PARAMETERS:
        limit = f"An operation takes at most {MAX_PARAMETERS} parameters."
        raise FhirError(limit, 400, "too-costly")
    params: Params = []
    mistakes: list[str] = []
    for part in parts:
        try:
            params.append(_pair(part))
        except FhirError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise FhirError(mistakes)
    return params


def _pair(part: Any) -> tuple[str, str]:
    name = part.get("name") if isinstance(part, dict) else None
    if not isinstance(name, str) or not name:
        raise FhirError("A parameter needs a name.")
    values = {member: value for member, value in part.items() if member.startswith("value")}
    if len(values) != 1 or {"resource", "part"} & set(part):
        raise FhirError(f"The parameter {quotable(name)} needs one value[x], and nothing else.")
    ((member, value),) = values.items()
    text = _value_text(member, value)
    if text is None:
        problem = f"The parameter {quotable(name)} has a value of a type that is not supported"
        raise FhirError(f"{problem}: write it as in a URL, as valueString.")
    return name, text


def _value_text(member: str, value: Any) -> str | None:
    """Return a value as it is written in a URL; None if it cannot be written there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    write = _WRITERS.get(member)
    return write(value) if write is not None and isinstance(value, dict) else None


def _reference_text(value: dict[str, Any]) -> str | None:
    reference = value.get("reference")
    return escape(reference) if isinstance(reference, str) else None


def _coding_text(value: dict[str, Any]) -> str | None:
    return _token_text(value.get("system"), value.get("code"))


def _identifier_text(value: dict[str, Any]) -> str | None:
    return _token_text(value.get("system"), value.get("value"))


def _concept_text(value: dict[str, Any]) -> str | None:
    """Return the codings as alternatives."""
    codings = value.get("coding")
    if not isinstance(codings, list) or not codings:
        return None
    texts = [_coding_text(coding) if isinstance(coding, dict) else None for coding in codings]
    return None if None in texts else ",".join(text for text in texts if text)


def _token_text(system: Any, code: Any) -> str | None:
    if not isinstance(code, str) or not isinstance(system, str | None):
        return None
    return escape(code) if system is None else f"{escape(system)}|{escape(code)}"


_WRITERS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "valueReference": _reference_text,
    "valueCoding": _coding_text,
    "valueIdentifier": _identifier_text,
    "valueCodeableConcept": _concept_text,
}
