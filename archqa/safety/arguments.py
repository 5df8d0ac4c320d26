"""Arguments of public functions, checked first: a message names their type, never their content."""

from pathlib import Path
from typing import Any

from archqa.errors import CallerError, InputError, shown_path
from archqa.safety.text import without_surrogates


def as_path(value: Any, argument: str) -> Path:
    """The path in an argument. Text that can be no path, such as a note's, is not quoted.

    Raises `CallerError` for a value of another type, `InputError` for text that is no path.
    """
    if not isinstance(value, str | Path):
        raise CallerError(
            f"{argument} is of type {type(value).__name__}; it should be the path of a file.\n"
            "Write the content to a file and name that."
        )
    if shown_path(value) != str(value) and not _exists(value):
        raise InputError(
            value,
            [f": {argument} is no path."],
            "Write the text to a file and name that.",
        )
    return Path(value)


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # Too long for a name, or with a null character.
        return False


def as_optional_path(value: Any, argument: str) -> Path | None:
    """The same for an argument that may be None."""
    return None if value is None else as_path(value, argument)


def as_text(value: Any, argument: str) -> str:
    """The text in an argument, without halves of characters.

    Raises `CallerError` for a value of another type.
    """
    if not isinstance(value, str):
        raise CallerError(
            f"{argument} is of type {type(value).__name__}; it should be text."
        )
    return without_surrogates(value)
