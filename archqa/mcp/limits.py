"""What one call of a tool may use: rows, bytes of the reply, seconds."""

import json
from typing import NamedTuple

from pydantic import BaseModel

from archqa.errors import CallerError
from archqa.fhir.request_budget import RequestLimits

_ANY_NUMBER = 2**40


class CallLimits(NamedTuple):
    """The limits of one call. `rows` counts resources, sentences or rows of a reply."""

    rows: int = 50
    bytes: int = 256 * 1024
    seconds: float = 60.0

    @property
    def for_record(self) -> RequestLimits:
        """The same time for the record's searches; what they read is not what is replied."""
        return RequestLimits(self.seconds, resources=_ANY_NUMBER, reply_bytes=_ANY_NUMBER)

    def check_size(self, reply: BaseModel) -> None:
        """Raise `CallerError` for a reply that is too long, however it is cut."""
        size = json_size(reply.model_dump(mode="json"))
        if size > self.bytes:
            raise CallerError(
                f"The reply has {size} bytes, more than the {self.bytes} that one may have.\n"
                "Ask for less: fewer rows, one section, a date; or start with a larger --max-bytes."
            )


def json_size(value: object) -> int:
    """Return the bytes of a JSON value as it is sent."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
