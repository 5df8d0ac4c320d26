"""Writes scores in the organisers' own files, readable by their owner only."""

import json
from collections.abc import Mapping
from pathlib import Path

from archqa.errors import InputError
from archqa.safety.files import write_private_text

_OWN_SCORES = frozenset({"question_overlap", "line_support", "line_support_judged"})


def write_leaderboard(path: Path, scores: Mapping[str, float]) -> None:
    """Write the scores by their official names, as the leaderboard takes them."""
    official = {name: value for name, value in scores.items() if name not in _OWN_SCORES}
    write_official_text(path, json.dumps(official, indent=2) + "\n")


def write_official_text(path: Path, text: str) -> None:
    """Write a text file with mode 0600. Raises `InputError` if it cannot be written."""
    try:
        write_private_text(path, text)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> InputError:
    """The error for a file that cannot be written."""
    return InputError(
        path,
        [f": cannot be written: {error.strerror}."],
        "Name a place that can, with --official-json.",
    )
