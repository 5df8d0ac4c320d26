"""Text without lone surrogates: half characters, which no UTF-8 file can hold.

They come from JSON escapes (`\\ud800`) and from arguments of a command that are not UTF-8.
"""

import re
from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def is_whole(text: str) -> bool:
    """Whether a text has no lone surrogate."""
    return _SURROGATE.search(text) is None


def whole_text(text: str) -> str:
    """The text with the replacement character in place of each lone surrogate."""
    return _SURROGATE.sub(REPLACEMENT, text)


def whole_json(value: Any) -> Any:
    """A parsed JSON value whose texts, also those that name fields, are whole."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [whole_json(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(name): whole_json(item) for name, item in value.items()}
    return value
