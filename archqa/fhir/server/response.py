"""What the server answers, before HTTP: status, body and headers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Headers = Mapping[str, str]
"""Headers of a request or a response; names are in lower case."""


@dataclass(frozen=True)
class FhirResponse:
    """An HTTP response: status, body (JSON text) and headers."""

    status: int
    body: str
    headers: Headers = field(default_factory=dict)

    def json(self) -> Any:
        """Return the body as JSON values."""
        return json.loads(self.body)
