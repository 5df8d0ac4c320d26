"""`$validate`: what a create here would find wrong with a resource, and what the record says.

Source: hl7.org/fhir/R4/resource-operation-validate.html.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params
from archqa.fhir.write.validation import (
    REQUIRED_ELEMENTS,
    Finding,
    as_r4_findings,
    validate_resource,
)
from archqa.fhir.write.writer import NO_PROBLEM, Writer, WriteResult

_PATH = re.compile(r"(?P<type>[^/]+)(?:/(?P<id>[^/]+))?/\$validate")
_FORMATS = {"_format", "_pretty"}
_MODES = ("create", "update", "delete", "profile")
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
_NO_UPDATE = {
    "update": "this server has no update; a resource cannot be replaced.",
    "delete": "this server deletes nothing.",
}


class _Request(NamedTuple):
    """What to validate: a resource (None for that of the URL), perhaps for a mode or profiles."""

    resource: Any = None
    mode: str | None = None
    profiles: tuple[str, ...] = ()


def validate(
    record: LocalRecord, writer: Writer, path: str, params: Params, body: str | None
) -> str:
    """Return the OperationOutcome of `Type/$validate` or `Type/id/$validate`; it has an issue.

    `body` is that of a POST, None for a GET. Raises `FhirError` for an invalid request.
    """
    match = _PATH.fullmatch(path)
    assert match is not None
    resource_type, resource_id = match["type"], match["id"]
    record.check_type(resource_type)
    request = _parse(params, body)
    stored = None if resource_id is None else record.get(resource_type, resource_id)
    if resource_id is not None and stored is None:
        raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
    resource = stored if request.resource is None else request.resource
    if resource is None and request.mode != "delete":
        raise FhirError("The body must be a resource, or Parameters with one named resource.")
    findings = [
        *_mode_findings(request, resource_type, resource_id, resource),
        *_findings(writer, resource_type, resource, request.mode),
    ]
    for profile in request.profiles:
        name = profile if re.fullmatch(r"[\w:/.|-]{1,200}", profile, re.ASCII) else "of that name"
        findings.append(_warning("", f"the profile {name} was not checked."))
    result = WriteResult(status=200, findings=tuple(findings))
    return json.dumps(result.outcome(_no_problem(resource_type)))


def _findings(
    writer: Writer, resource_type: str, resource: Any, mode: str | None
) -> Iterator[Finding]:
    """Yield what is wrong with the resource itself, and what the record says against it."""
    if resource is None:
        return
    if resource_type not in REQUIRED_ELEMENTS:
        yield from _general_findings(resource, resource_type)
        return
    findings = validate_resource(resource, resource_type, writer.has_patient)
    yield from findings if mode == "create" else as_r4_findings(findings, resource_type)
    if not any(finding.level == "error" for finding in findings):
        yield from writer.record_findings(resource)


def _general_findings(resource: Any, resource_type: str) -> Iterator[Finding]:
    """Yield what can be said of a type whose elements are not checked."""
    if not isinstance(resource, dict):
        yield _error("", "the resource must be a JSON object.")
        return
    if resource.get("resourceType") != resource_type:
        yield _error("resourceType", f"must be {resource_type}, as in the URL.")
    if "id" in resource and not _is_id(resource["id"]):
        yield _error("id", "must be 1 to 64 letters, digits, - and .")
    if not isinstance(resource.get("meta", {}), dict):
        yield _error("meta", "must be a JSON object.")


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _mode_findings(
    request: _Request, resource_type: str, resource_id: str | None, resource: Any
) -> Iterator[Finding]:
    """Yield what speaks against the interaction that is asked about."""
    if request.mode in _NO_UPDATE:
        yield _error("", _NO_UPDATE[request.mode])
    if request.mode == "create" and resource_type not in REQUIRED_ELEMENTS:
        yield _error("", f"a {resource_type} cannot be created here.")
    own_id = resource.get("id") if isinstance(resource, dict) else None
    if resource_id is not None and own_id is not None and own_id != resource_id:
        yield _error("id", "must be that of the URL.")


def _no_problem(resource_type: str) -> str:
    if resource_type in REQUIRED_ELEMENTS:
        return f"{NO_PROBLEM} Other rules of FHIR were not checked."
    checked = ", ".join(sorted(REQUIRED_ELEMENTS))
    return (
        "No problem was found by the checks this server makes: JSON, resourceType, id and meta."
        f" Other elements are checked of {checked} alone."
    )


def _parse(params: Params, body: str | None) -> _Request:
    """Parse the parameters of the URL and of the body. Raises `FhirError` with every mistake."""
    pairs = [(name, value) for name, value in params if name not in _FORMATS]
    resource = None
    if body is not None and body.strip():
        try:
            resource = parse_request_body(body)
        except InvalidBody as error:
            raise FhirError(f"The body {error}") from None
    if isinstance(resource, dict) and resource.get("resourceType") == "Parameters":
        resource, inner = _unpack(resource)
        pairs += inner
    return _Request(resource, *_mode_and_profiles(pairs))


def _unpack(parameters: dict[str, Any]) -> tuple[Any, Params]:
    """Return the resource of Parameters and the other ones, as names and values."""
    resource = None
    others = []
    members = parameters.get("parameter")
    for parameter in members if isinstance(members, list) else []:
        name = parameter.get("name") if isinstance(parameter, dict) else None
        if name == "resource":
            resource = parameter.get("resource")
        else:
            others.append((str(name), _value(parameter)))
    return resource, others


def _value(parameter: Any) -> str:
    if isinstance(parameter, dict):
        for member, value in parameter.items():
            if member.startswith("value") and isinstance(value, str):
                return value
    return ""


def _mode_and_profiles(pairs: Params) -> tuple[str | None, tuple[str, ...]]:
    mode = None
    profiles = []
    mistakes = []
    for name, value in pairs:
        if name == "profile":
            profiles.append(value)
        elif name != "mode":
            mistakes.append(f"$validate has no parameter {quotable(name)}.")
        elif value not in _MODES:
            mistakes.append(f"mode must be one of {', '.join(_MODES)}.")
        else:
            mode = value
    if mistakes:
        raise FhirError(mistakes)
    return mode, tuple(profiles)


def _error(path: str, message: str) -> Finding:
    return Finding(level="error", path=path, message=message)


def _warning(path: str, message: str) -> Finding:
    return Finding(level="warn", path=path, message=message)
