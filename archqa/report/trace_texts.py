"""The texts of a trace, cut where they are too long for a page."""

from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_TEXT_LENGTH = 20_000
MAX_PAGE_LENGTH = 1_500_000
"""Characters of all texts of a page; a browser still opens and searches it at once."""


class TraceText(NamedTuple):
    """A text of a trace; `omitted` characters of its end are only in the file of the trace."""

    title: str
    text: str
    omitted: int = 0

    @property
    def length(self) -> int:
        """Characters of the whole text."""
        return len(self.text) + self.omitted


class TextCutter:
    """Cuts each text, and all texts of a page together."""

    def __init__(
        self, max_text_length: int = MAX_TEXT_LENGTH, max_page_length: int = MAX_PAGE_LENGTH
    ) -> None:
        self._max_text_length = max_text_length
        self._characters_left = max_page_length

    def cut(self, title: str, text: str) -> TraceText:
        """Return the start of a text that there is room for."""
        shown = text[: min(self._max_text_length, self._characters_left)]
        self._characters_left -= len(shown)
        return TraceText(title, shown, len(text) - len(shown))

    def cut_message(self, message: Mapping[str, Any]) -> TraceText:
        """Return the content of a message, under its role."""
        return self.cut(str(message.get("role", "")), str(message.get("content") or ""))
