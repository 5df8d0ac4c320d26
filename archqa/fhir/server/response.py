"""What the server answers, before HTTP: status, body and headers; or a part of a file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Headers = Mapping[str, str]
"""Headers of a request or a response; names are in lower case."""


class FilePart(NamedTuple):
    """The bytes of a file from `start` up to `end`, which is not part of it."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class FhirResponse:
    """An HTTP response: status, body (JSON text) and headers.

    The body of a streamed response is empty: its `chunks` are the text, or the part of a `file`.
    """

    status: int
    body: str
    headers: Headers = field(default_factory=dict)
    chunks: Iterator[str] | None = None
    file: FilePart | None = None

    def json(self) -> Any:
        """Return the body as JSON values."""
        return json.loads(self.body)
