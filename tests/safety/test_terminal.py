"""Text made safe for a terminal."""

import pytest

from archqa.safety.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nof two lines, µg", "plain\ttext\nof two lines, µg"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\rb", r"a\rb"),
        ("a\u202eb", r"a\u202eb"),
        ("\x9b31m", r"\x9b31m"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown
