"""Numbers that remember how they were written: 1.00 is more precise than 1."""

import json
from typing import Any


class RecordedNumber(float):
    """A decimal number with its text in the record. What is computed from it is a plain float."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str | float) -> "RecordedNumber":
        """Create the number from its text."""
        number = super().__new__(cls, text)
        number.text = str(text)
        return number


_DECODER = json.JSONDecoder(parse_float=RecordedNumber)


def parse_json(text: str) -> Any:
    """Return JSON values whose decimal numbers keep their text. Raises ValueError as json does."""
    return _DECODER.decode(text)


def recorded_text(number: float) -> str:
    """Return a number as the record has it; a computed one without trailing zeros."""
    if isinstance(number, RecordedNumber):
        return number.text
    return str(number) if isinstance(number, int) else f"{number:g}"
