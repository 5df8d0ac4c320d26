"""What handlers receive and return: a request with what answers it, and a response."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from archqa.fhir.profile import Profile
from archqa.fhir.record import operation_outcome
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.references import RequestPath
from archqa.fhir.values.urls import Params
from archqa.fhir.write.writer import Writer

Headers = Mapping[str, str]
"""Headers of a request or a response; names are in lower case."""


@dataclass(frozen=True)
class FhirResponse:
    """An HTTP response: status, body (JSON text) and headers.

    The body of a streamed response is empty: its `chunks` are the text.
    """

    status: int
    body: str
    headers: Headers = field(default_factory=dict)
    chunks: Iterator[str] | None = None

    def json(self) -> Any:
        """Return the body as JSON values."""
        return json.loads(self.body)


def error_response(
    status: int,
    code: str,
    text: str,
    headers: Headers | None = None,
) -> FhirResponse:
    """Return a response whose body is an OperationOutcome with one issue."""
    severity = "fatal" if status == 500 else "error"
    return FhirResponse(
        status,
        json.dumps(operation_outcome([text], severity, code)),
        headers or {},
    )


@dataclass(frozen=True)
class RequestContext:
    """One request, with the record that answers it and the writer for what it stores.

    `base` is the address that links begin with. `answer_get` answers the `GET` of a Bundle's entry:
    a URL, which may begin with the base, and headers.
    """

    record: LocalRecord
    writer: Writer
    base: str
    answer_get: Callable[[str, Headers], FhirResponse]
    path: RequestPath
    params: Params
    body: str
    headers: Headers

    @property
    def profile(self) -> Profile:
        """The server behaviour to imitate."""
        return self.record.profile


Handler = Callable[[RequestContext], FhirResponse]
"""Answers a request. Raises `FhirError` for one that it refuses."""
