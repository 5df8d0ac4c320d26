"""What the server answers, before HTTP: status, body and headers."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
